from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import Any

import pytest

from artifactctl import metadata, yamlfile
from artifactctl.errors import ArtifactDamaged

pytestmark = pytest.mark.xdist_group("built")

KNOWN = ["model_name", "version", "opset", "precision", "optimization", "runtime", "latency_ms", "accuracy_drop"]
SECTIONS = ["source", "reference", "model", "recipe", "session", "equivalence", "latency"]
SECTIONS += ["environment", "files", "previous"]


def data_of(text: str) -> dict[str, Any]:
    """The data block of a validate.py, read without running it."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "DATA":
            return dict(ast.literal_eval(statement.value))
    raise AssertionError("validate.py has no DATA")


def test_an_artifact_is_read_and_written_back_to_the_byte(built: Path) -> None:
    data = metadata.read(built)
    assert metadata.dump(data) == (built / "metadata.yaml").read_text(encoding="utf-8")
    assert list(data) == [*KNOWN, "schema_version", *SECTIONS]


@pytest.mark.parametrize(
    "value",
    ["1e3", "1E5", "2e-7", "12", "0x10", "1.5", "yes", "null", "~", "", "2020-01-01", "1:30", "a: b", "- x", "naïve\n|",
     "'", " x ", "\t", "!tag", "&a", "*a", "%", "\u2028"],
)  # fmt: skip
def test_any_text_survives(value: str) -> None:
    data = {"model_name": value, "list": [value, {"inner": value}]}
    assert yamlfile.parse(metadata.dump(data), "m").data == data


@pytest.mark.parametrize("value", [0, 7, 1e-7, 1e16, 0.1, -2.5e-300, 5e-324, 1.0, 123456789.123, None, True, [], {}])
def test_any_number_survives(value: Any) -> None:
    found = yamlfile.parse(metadata.dump({"x": value, "y": [value]}), "m").data
    assert found == {"x": value, "y": [value]}
    assert type(found["x"]) is type(value)


def test_values_that_appear_twice_are_written_out() -> None:
    shared = {"a": [1, 2]}
    text = metadata.dump({"x": shared, "y": shared})
    assert "&" not in text
    assert yamlfile.parse(text, "m").data == {"x": shared, "y": shared}


def test_validate_is_a_function_of_the_metadata(built: Path) -> None:
    data = metadata.read(built)
    text = metadata.render_validate(data)
    assert text == metadata.render_validate(data) == (built / "validate.py").read_text(encoding="utf-8")
    compile(text, "validate.py", "exec")
    block = data_of(text)
    assert (block["model_name"], block["version"]) == (data["model_name"], data["version"])
    assert block["session"] == data["session"]
    assert block["bounds"] == data["equivalence"]["bounds"]
    assert block["plan"].items() <= data["reference"]["samples"].items()


@pytest.mark.parametrize("name", ['x"""', "x'", "x\\", "x\n# </data>\nimport os", "{x}", "naïve", r"\g<0>"])
def test_odd_names_stay_data(built: Path, name: str) -> None:
    data = metadata.read(built)
    data["reference"]["samples"]["inputs"][0]["name"] = name
    text = metadata.render_validate(data)
    compile(text, "validate.py", "exec")
    assert data_of(text)["plan"]["inputs"][0]["name"] == name


def test_only_the_data_block_differs_from_the_template(built: Path) -> None:
    from artifactctl.resources import template_text

    def outside(text: str) -> tuple[str, str]:
        return text.partition("# <data>\n")[0], text.partition("# </data>\n")[2]

    assert outside(metadata.render_validate(metadata.read(built))) == outside(template_text("validate.py"))


def test_metadata_and_files_of_a_good_artifact_agree(artifact: Path) -> None:
    assert metadata.disagreements(artifact, metadata.read(artifact)) == []


def test_every_described_file_is_looked_at(artifact: Path) -> None:
    data = metadata.read(artifact)
    names = [entry["path"] for entry in data["files"]]
    assert "model_opt.onnx" in names
    for name in names:
        content = (artifact / name).read_bytes()
        (artifact / name).write_bytes(content + b" ")
        assert metadata.disagreements(artifact, data) == [f"{name} is not the file that metadata.yaml describes"]
        (artifact / name).unlink()
        assert metadata.disagreements(artifact, data) == [f"{name} is not the file that metadata.yaml describes"]
        (artifact / name).write_bytes(content)
    assert metadata.disagreements(artifact, data) == []


def test_an_artifact_under_another_version(artifact: Path) -> None:
    moved = Path(shutil.move(artifact, artifact.with_name("artifact_v9")))
    [found] = metadata.disagreements(moved, metadata.read(moved))
    assert found == "metadata.yaml is of version 1, but the folder is artifact_v9"
    elsewhere = Path(shutil.move(moved, moved.with_name("unpacked")))
    assert metadata.disagreements(elsewhere, metadata.read(elsewhere)) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a mapping"),
        ("- a list\n", "is not a mapping"),
        ("a: [", "not valid YAML"),
        ("model_name: m\n", "is missing"),
    ],
)
def test_damaged_metadata(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "metadata.yaml").write_text(content)
    with pytest.raises(ArtifactDamaged, match=message):
        metadata.read(tmp_path)


def test_missing_metadata(tmp_path: Path) -> None:
    with pytest.raises(ArtifactDamaged, match=r"metadata.yaml does not exist"):
        metadata.read(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", "1"), ("version", 0), ("opset", None), ("files", {}), ("schema_version", 2), ("more", 1)],
)
def test_metadata_outside_its_schema(artifact: Path, key: str, value: Any) -> None:
    data = metadata.read(artifact) | {key: value}
    (artifact / "metadata.yaml").write_text(metadata.dump(data), encoding="utf-8")
    with pytest.raises(ArtifactDamaged, match=rf"metadata.yaml: .*{key}"):
        metadata.read(artifact)


def test_the_card_is_a_table_that_holds(built: Path) -> None:
    """A bound has bars in it, which would end a cell."""
    rows = [line for line in (built / "README.md").read_text().splitlines() if line.startswith("| proved")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 3
    assert "{{" not in (built / "README.md").read_text()


def test_the_terms_of_a_provider() -> None:
    own = {"qnn": {"bounds": {"default": {"max_abs": 0.05}}}, "openvino": {"options": {"device_type": "GPU"}}}
    shared = {"default": {"max_abs": 1e-3}}
    session = {"provider": "cpu", "options": {"a": "b"}}
    data = {"session": session, "equivalence": {"bounds": shared, "providers": own}}
    assert metadata.bounds_on(data) == metadata.bounds_on(data, "openvino") == shared
    assert metadata.bounds_on(data, "qnn") == own["qnn"]["bounds"]
    assert metadata.options_on(data, "cpu") == {"a": "b"}
    assert metadata.options_on(data, "openvino") == {"device_type": "GPU"}
    assert metadata.options_on(data, "qnn") == {"backend_type": "htp"}
    older = {"session": session, "equivalence": {"bounds": shared}}
    assert metadata.bounds_on(older, "qnn") == shared


@pytest.mark.parametrize(
    ("fallback", "said"),
    [
        (None, "nothing: the CPU leaves the bound"),
        ({"provider": "cpu"}, "cpu, the same file, proved too"),
        ({"provider": "cpu", "best": None}, "cpu, the same file, proved too"),
        (
            {"provider": "cpu", "best": {"recipe": "slim"}},
            "cpu, the same file, proved too; the best there is slim: build --provider cpu",
        ),
    ],
)
def test_what_runs_where_the_chosen_provider_is_missing(fallback: Any, said: str) -> None:
    session = {"provider": "openvino", "graph_level": "all", "fallback": fallback}
    found = {"session": session, "latency": {"ratio_high": 0.9}}
    assert metadata.session_texts(found) == [f"openvino, proved faster; where it is missing: {said}"]
    for latency in ({"ratio_high": 1.1}, {"ratio_high": None}, None):
        assert metadata.session_texts({"session": session, "latency": latency}) == [
            f"openvino; where it is missing: {said}"
        ]


@pytest.mark.parametrize(
    ("error", "low", "expected"),
    [
        (0.00243, 2.4, "; if an error of 0.0024 is small enough for you, equivalence: {max_abs: 0.003} takes them"),
        (None, 2.4, ""),  # of answers that cannot be compared
        (0.00243, 0.98, None),
    ],
)
def test_what_settings_cost_that_hold_the_bound(error: float | None, low: float, expected: str | None) -> None:
    report = {"against": "the source at ONNX Runtime's defaults", "ratio": 2.5, "ratio_low": low, "ratio_high": 2.6}
    meta = {
        "latency": {"defaults": report},
        "reference": {
            "noise": {"levels": [{"graph_level": "all", "max_error": error, "held": False, "reason": "far"}]},
            "samples": {"branches": [], "unwatched_branches": 0, "single_size": []},
        },
        "model": {"portability": "any"},
        "equivalence": {"outputs": [], "bounds": {"default": {"max_abs": 1e-3}, "outputs": {}}},
        "session": {"provider": "cpu"},
    }
    said = (
        f"slower than the source at ONNX Runtime's defaults, which leave the bound: 2.500 × its time ({low:.3f}–2.600)"
    )
    assert metadata.warnings(meta) == ([] if expected is None else [said + expected])


@pytest.mark.parametrize(
    ("data", "dims", "said"),
    [
        (
            {"labels": "l.npy"},
            {"batch": 1, "height": 64},
            "with x [1, 3, 64], which is made up: if you serve other sizes",
        ),
        ({}, {"batch": 1}, ""),
        ({}, None, ""),
        ({"samples": "s.npz"}, {"batch": 1, "height": 64}, ""),
    ],
)
def test_sizes_that_nobody_gave_are_told(data: dict[str, str], dims: dict[str, int] | None, said: str) -> None:
    """Elsewhere another model may be the fastest; of a batch of 1 there is nothing to say."""
    sample = {"kind": "normal"} | ({} if dims is None else {"dims": dims})
    inputs = [{"name": "x", "shape": ["batch", 3, "height"]}, {"name": "scale", "shape": [1]}]
    meta = {"latency": {"sample": sample}, "reference": {"samples": {"inputs": inputs}}, "source": {"data": data}}
    text = metadata.sizes_text(meta)
    assert text.startswith(said)
    assert bool(text) is bool(said)
    assert metadata.sizes_text(meta | {"latency": None}) == ""
