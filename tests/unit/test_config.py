from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from artifactctl import config, stores
from artifactctl.errors import ConfigError, SourceError
from artifactctl.project import Bound, Data, InputSpec, Project, Source

EXAMPLE = """\
schema_version: 1
models:
  simple_cnn:
    source:
      torch: models/simple_cnn.py:build        # a factory returning an nn.Module in eval mode
      weights: models/simple_cnn.safetensors   # optional
      inputs:                                  # for sources whose inputs are not in the file
        input: {shape: [batch, 1, 28, 28], dtype: float32}
      opset: 18
    data:
      samples: data/samples.npz
      labels: data/labels.npy
      calibration: data/calibration.npz
    optimize:
      recipes: [auto]
    equivalence: {max_abs: 1.0e-3}
    latency: {max_regression: 10%, budget_s: 60}
    providers: [cpu, openvino, cuda]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / config.CONFIG_NAME
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, **model: Any) -> Project:
    """A configuration of one model `m`, whose source is m.onnx unless another is given."""
    entry = {"source": {"onnx": "m.onnx"}} | model
    return config.load(write(folder, yaml.safe_dump({"schema_version": 1, "models": {"m": entry}})))


def refusal(folder: Path, **model: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, **model)
    assert str(caught.value).startswith("artifactctl.yaml:")
    return str(caught.value).split(": ", 1)[1]


def test_the_example_of_the_contract(tmp_path: Path) -> None:
    project = config.load(write(tmp_path, EXAMPLE))
    model = project.models["simple_cnn"]
    assert project.root == tmp_path.resolve()
    assert model.source == Source(
        "torch",
        "models/simple_cnn.py:build",
        "models/simple_cnn.safetensors",
        {"input": InputSpec(("batch", 1, 28, 28), "float32")},
        18,
    )
    assert model.data == Data("data/samples.npz", "data/labels.npy", "data/calibration.npz")
    assert (model.recipes, model.providers) == (("auto",), ("cpu", "openvino", "cuda"))
    assert (model.equivalence.default, model.equivalence.outputs) == (Bound(1e-3), {})
    assert (model.latency.max_regression, model.latency.budget_s) == (0.1, 60.0)


def test_a_bound_for_each_output(tmp_path: Path) -> None:
    found = load(tmp_path, equivalence={"outputs": {"logits": {"max_abs": 0.01}}}).models["m"].equivalence
    assert found.default == Bound(1e-3)
    assert found.outputs == {"logits": Bound(0.01)}


@pytest.mark.parametrize("name", ["git", "lfs", "dvc"])
def test_the_store_of_releases(tmp_path: Path, name: str) -> None:
    data = {"schema_version": 1, "models": {"m": {"source": {"onnx": "m.onnx"}}}}
    assert config.load(write(tmp_path, yaml.safe_dump(data))).release.store == "git"
    data["release"] = {"store": name}
    assert config.load(write(tmp_path, yaml.safe_dump(data))).release.store == name
    assert name in stores.STORES


def test_an_unknown_store_is_refused(tmp_path: Path) -> None:
    text = EXAMPLE + "release: {store: dcv}\n"
    with pytest.raises(ConfigError, match=r"artifactctl\.yaml:19:\d+: .*perhaps you meant 'dvc'"):
        config.load(write(tmp_path, text))


def test_an_olive_file_is_a_recipe(tmp_path: Path) -> None:
    assert load(tmp_path, optimize={"recipes": ["fp16", {"olive": "q.json"}]}).models["m"].recipes == (
        "fp16",
        "olive:q.json",
    )


@pytest.mark.parametrize("text", ["Apache-2.0", "MIT OR Apache-2.0", "ask us first", "Lizenz ähnlich 😀"])
def test_a_licence_is_any_text(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, license=text).models["m"].license == text


def test_no_licence_is_invented(tmp_path: Path) -> None:
    assert load(tmp_path).models["m"].license is None


@pytest.mark.parametrize("value", ["", "  ", "\n", 2.0, ["MIT"], {"id": "MIT"}])
def test_what_is_no_licence(tmp_path: Path, value: Any) -> None:
    assert refusal(tmp_path, license=value)


@pytest.mark.parametrize(("written", "share"), [("10%", 0.1), ("0.5%", 0.005), ("0%", 0.0), (0.2, 0.2), (1, 1.0)])
def test_shares_are_percentages_or_numbers(tmp_path: Path, written: Any, share: float) -> None:
    assert load(tmp_path, latency={"max_regression": written}).models["m"].latency.max_regression == share


@pytest.mark.parametrize("written", ["10", "-1%", "%", "ten", "1 %", True, -0.1])
def test_other_shares_are_refused(tmp_path: Path, written: Any) -> None:
    assert "10%" in refusal(tmp_path, latency={"max_regression": written})


def test_exponents_without_a_dot_are_numbers(tmp_path: Path) -> None:
    text = EXAMPLE.replace("1.0e-3", "1e-2")
    assert config.load(write(tmp_path, text)).models["simple_cnn"].equivalence.default == Bound(0.01)


@pytest.mark.parametrize("number", [".inf", ".nan", "1e400"])
@pytest.mark.parametrize("where", ["equivalence: {max_abs: %s}", "latency: {budget_s: %s}"])
def test_a_bound_that_is_not_finite_is_refused(tmp_path: Path, number: str, where: str) -> None:
    text = f"schema_version: 1\nmodels:\n  m:\n    source: {{onnx: m.onnx}}\n    {where % number}\n"
    with pytest.raises(ConfigError):
        config.load(write(tmp_path, text))


def test_an_unknown_key_has_file_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(write(tmp_path, EXAMPLE.replace("max_abs", "max_ab")))
    assert str(caught.value) == "artifactctl.yaml:16:19: unknown key 'max_ab', perhaps you meant 'max_abs'"


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    text = refusal(tmp_path, dat={}, providers=["gpu"])
    assert "unknown key 'dat'" in text
    assert "'gpu' is not one of" in text


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"artifactctl.yaml is empty"):
        config.load(write(tmp_path, text))


@pytest.mark.parametrize("name", ["CON", "a..b", "a.lock", "a.", "my model"])
def test_a_name_that_cannot_be_a_folder_and_a_tag(tmp_path: Path, name: str) -> None:
    text = yaml.safe_dump({"schema_version": 1, "models": {name: {"source": {"onnx": "m.onnx"}}}})
    with pytest.raises(ConfigError, match=rf"'{name}' cannot be a"):
        config.load(write(tmp_path, text))


INPUTS = {"x": {"shape": ["batch", 4]}}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "names no source; exactly one of onnx, torch"),
        ({"onnx": "a", "torchscript": "b"}, "names 2 sources (onnx, torchscript)"),
        ({"onnx": "a", "weights": "w.pt"}, "weights go with torch, not with onnx"),
        ({"exported_program": "a.pt2", "weights": "w.pt"}, "weights go with torch, not with exported_program"),
        ({"onnx": "a", "opset": 18}, "an ONNX file has its own opset"),
        ({"torch": "a.py:build"}, "torch needs inputs"),
        ({"torchscript": "a.pt"}, "torchscript needs inputs"),
    ],
)
def test_rules_of_the_source(tmp_path: Path, source: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, source=source).startswith(message)


@pytest.mark.parametrize(
    "source",
    [
        {"exported_program": "a.pt2"},
        {"onnx": "a", "inputs": INPUTS},
        {"torch": "package.module:build", "inputs": INPUTS},
        {"torchscript": "a.pt", "inputs": INPUTS, "opset": 17},
    ],
)
def test_sources_that_are_whole(tmp_path: Path, source: dict[str, Any]) -> None:
    found = load(tmp_path, source=source).models["m"].source
    assert found.target == source[found.kind]


LABELLED = {"samples": "s.npz", "labels": "l.npy"}


@pytest.mark.parametrize(
    ("equivalence", "data", "message"),
    [
        ({"max_abs": None}, {}, "max_abs is null, so another measure is needed"),
        ({"outputs": {"y": {"max_abs": None}}}, {}, "max_abs is null, so another measure is needed"),
        ({"max_abs": None, "max_accuracy_drop": "1%"}, {}, "max_accuracy_drop needs data.samples and data.labels"),
        ({"max_accuracy_drop": 0.01}, {"samples": "s.npz"}, "max_accuracy_drop needs data.samples and data.labels"),
        ({"outputs": {"y": {"max_accuracy_drop": 0.01}}}, LABELLED, "max_accuracy_drop is for the whole model"),
        ({}, {"labels": "l.npy"}, "labels need samples: add data.samples"),
    ],
)
def test_rules_of_the_measures(tmp_path: Path, equivalence: dict[str, Any], data: dict[str, str], message: str) -> None:
    assert message in refusal(tmp_path, equivalence=equivalence, data=data)


@pytest.mark.parametrize(
    ("equivalence", "bound"),
    [
        ({"max_abs": None, "min_cosine": 0.995}, Bound(None, min_cosine=0.995)),
        ({"max_abs": None, "min_top1": 0.99}, Bound(None, min_top1=0.99)),
        ({"max_abs": None, "max_accuracy_drop": "0.5%"}, Bound(None, max_accuracy_drop=0.005)),
        ({"max_abs": 0.1, "absolute": True}, Bound(0.1, absolute=True)),
    ],
)
def test_other_measures(tmp_path: Path, equivalence: dict[str, Any], bound: Bound) -> None:
    assert load(tmp_path, equivalence=equivalence, data=LABELLED).models["m"].equivalence.default == bound


def test_where_a_configuration_is_found(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    assert config.find(tmp_path, None) is None
    assert config.find(tmp_path, other) == other
    path = write(tmp_path, EXAMPLE)
    assert config.find(tmp_path, None) == path
    assert config.find(tmp_path, other) == other


def chosen(project: Project | None, directory: Path, *wanted: str) -> list[tuple[Path, str]]:
    return [(owner.root, model.name) for owner, model in config.select(project, wanted, directory)]


def test_models_are_selected_by_name_or_by_file(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(b"x")
    (tmp_path / "other.onnx").write_bytes(b"x")
    project = load(folder)
    assert chosen(project, folder) == [(folder.resolve(), "m")]
    assert chosen(project, folder, "m") == [(folder.resolve(), "m")]
    assert chosen(project, folder, "m.onnx") == [(folder.resolve(), "m")]
    assert chosen(project, tmp_path, "sub/m.onnx", "other.onnx") == [
        (folder.resolve(), "m"),
        (tmp_path.resolve(), "other"),
    ]


def test_a_name_that_is_nearly_right(tmp_path: Path) -> None:
    project = config.load(write(tmp_path, EXAMPLE))
    with pytest.raises(ConfigError, match="no model is named 'simple_cn', perhaps you meant 'simple_cnn'") as caught:
        config.select(project, ("simple_cn",), tmp_path)
    assert caught.value.hint == "The configured models are: simple_cnn."


def test_a_file_without_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "my model.onnx").write_bytes(b"x")
    (tmp_path / "p.pt2").write_bytes(b"x")
    [(project, model)] = config.select(None, ("my model.onnx",), tmp_path)
    assert (project.root, project.config_path) == (tmp_path.resolve(), None)
    assert (model.name, model.source) == ("my_model", Source("onnx", "my model.onnx"))
    [(_, program)] = config.select(None, ("p.pt2",), tmp_path)
    assert program.source.kind == "exported_program"


def test_nothing_named_and_nothing_configured(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no model is named and there is no artifactctl.yaml here"):
        config.select(None, (), tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing.onnx", "does not exist"), ("folder", "is a folder"), ("net.pt", "needs a configuration")],
)
def test_files_that_are_no_source(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "net.pt").write_bytes(b"x")
    with pytest.raises(SourceError, match=message):
        config.select(None, (name,), tmp_path)


def test_providers_as_a_mapping(tmp_path: Path) -> None:
    """What is not named comes from the model's default bound; bounds of single outputs do not hold there."""
    measures = {"max_abs": 0.01, "absolute": True, "max_accuracy_drop": "1%", "outputs": {"y": {"max_abs": 1}}}
    named = {"cpu": None, "openvino": {}, "qnn": {"max_abs": 0.05, "min_top1": 0.9, "options": {"vtcm_mb": 8}}}
    data = {"samples": "s.npz", "labels": "l.npy"}
    model = load(tmp_path, providers=named, equivalence=measures, data=data).models["m"]
    assert model.providers == ("cpu", "openvino", "qnn")
    assert list(model.own) == ["qnn"]
    own = model.equivalence_on("qnn")
    assert own.default == Bound(0.05, absolute=True, min_top1=0.9, max_accuracy_drop=0.01)
    assert own.outputs == {}
    assert model.equivalence_on("openvino") is model.equivalence
    assert model.options_on("qnn") == {"vtcm_mb": "8"}
    assert model.options_on("cpu") == {}


def test_options_alone_leave_the_bounds(tmp_path: Path) -> None:
    model = load(tmp_path, providers={"qnn": {"options": {"backend_type": "cpu"}}}).models["m"]
    assert model.equivalence_on("qnn") is model.equivalence
    assert model.options_on("qnn") == {"backend_type": "cpu"}


def test_a_list_and_an_empty_mapping_are_the_same(tmp_path: Path) -> None:
    forms = (["cpu", "qnn"], {"cpu": None, "qnn": {}}, {"cpu": {}, "qnn": {"options": {}}})
    found = [load(tmp_path, providers=form).models["m"] for form in forms]
    assert found[0] == found[1] == found[2]
    assert found[0].own == {}


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ({"opnvino": {}}, "unknown key 'opnvino', perhaps you meant 'openvino'"),
        ({"qnn": {"max_ab": 1}}, "unknown key 'max_ab', perhaps you meant 'max_abs'"),
        ({"qnn": {"max_abs": None}}, "max_abs is null, so another measure is needed: min_cosine or min_top1"),
        ({"qnn": 0.05}, "0.05 does not fit: a provider has nothing, or {max_abs,"),
        ({"qnn": {"options": {"backend_path": "x"}}}, "'backend_path' cannot be a name here: an option's name has"),
        ({"qnn": {"options": {"x": "/tmp/y"}}}, "'/tmp/y' does not fit: an option is a short text"),
        ({"qnn": {"options": {"x": True}}}, "True does not fit: an option is a short text"),
        ("cpu", "'cpu' does not fit: providers is a list of names"),
        (["cpu", "cpu"], "non-unique"),
        ([], ""),
        ({}, ""),
    ],
)
def test_providers_that_do_not_fit(tmp_path: Path, providers: Any, message: str) -> None:
    assert message in refusal(tmp_path, providers=providers)


def test_another_measure_of_the_model_is_enough_for_a_provider(tmp_path: Path) -> None:
    model = load(tmp_path, providers={"qnn": {"max_abs": None}}, equivalence={"min_cosine": 0.9}).models["m"]
    assert model.equivalence_on("qnn").default == Bound(None, min_cosine=0.9)
