"""Configurations, samples and options that do not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from artifactctl import folder
from tests.conftest import MODELS, Finished
from tests.flow.refusal import fails

Cli = Callable[..., Finished]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    return tmp_path


def _configure(project: Path, *lines: str) -> None:
    head = ["schema_version: 1", "models:", "  mlp:", "    source: {onnx: mlp.onnx}"]
    (project / "artifactctl.yaml").write_text("\n".join([*head, *lines, ""]))


@pytest.mark.parametrize("command", ["build", "check"])
@pytest.mark.parametrize(
    ("lines", "names"),
    [
        pytest.param(
            ["    optimise: {recipes: [fp32]}"],
            ("artifactctl.yaml:5:5", "'optimise'", "perhaps you meant 'optimize'"),
            id="unknown-key",
        ),
        pytest.param(
            ["    equivalence:", "      max_abs: 1e-3", "      max_bas: 1e-3"],
            ("artifactctl.yaml:7:7", "'max_bas'", "perhaps you meant 'max_abs'"),
            id="unknown-inner-key",
        ),
        pytest.param(
            ["    source: {onnx: other.onnx}"], ("artifactctl.yaml:5:5", "'source'", "twice"), id="duplicate-key"
        ),
        pytest.param(
            ["    latency: {budget_s: 5, budget_s: 6}"],
            ("artifactctl.yaml:5:28", "'budget_s'", "twice"),
            id="duplicate-inner-key",
        ),
        pytest.param(["   optimize: {}"], ("artifactctl.yaml:5:", "YAML"), id="bad-indentation"),
        pytest.param(
            ["    providers: [cpu, cudo]"],
            ("artifactctl.yaml:5:22", "'cudo'", "perhaps you meant 'cuda'"),
            id="unknown-provider",
        ),
        pytest.param(
            ["    optimize: {recipes: [fp61]}"], ("artifactctl.yaml:5:", "'fp61'", "fp16"), id="unknown-recipe"
        ),
        pytest.param(["    latency: {budget_s: soon}"], ("artifactctl.yaml:5:15", "'soon'"), id="not-a-number"),
        pytest.param(
            ["    equivalence: {max_abs: null}"], ("artifactctl.yaml:5:", "max_abs", "min_cosine"), id="no-measure"
        ),
        pytest.param(
            ["    data: {labels: labels.npy}"], ("artifactctl.yaml:5:", "labels", "samples"), id="labels-only"
        ),
        pytest.param(["  ../up: {source: {onnx: mlp.onnx}}"], ("artifactctl.yaml:5:3", "'../up'"), id="name-of-a-path"),
        pytest.param(["  none: {source: {}}"], ("artifactctl.yaml:5:", "onnx"), id="no-source"),
        pytest.param(
            ["  two: {source: {onnx: mlp.onnx, torchscript: mlp.pt}}"],
            ("artifactctl.yaml:5:", "onnx", "torchscript"),
            id="two-sources",
        ),
    ],
)
def test_a_configuration_that_does_not_fit(
    cli: Cli, project: Path, command: str, lines: list[str], names: tuple[str, ...]
) -> None:
    _configure(project, *lines)
    fails(cli, project, 3, command, names=names)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"- 1\n", b"models: *gone\n", b"schema_version: 2\n"])
def test_a_file_that_is_no_configuration(cli: Cli, project: Path, content: bytes) -> None:
    (project / "artifactctl.yaml").write_bytes(content)
    fails(cli, project, 3, "check", names=("artifactctl.yaml",))


def test_a_configuration_of_endless_aliases(cli: Cli, project: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (project / "artifactctl.yaml").write_text("\n".join(lines))
    fails(cli, project, 3, "check", names=("artifactctl.yaml", "too many"))


def test_a_name_that_is_not_configured(cli: Cli, project: Path) -> None:
    _configure(project)
    error = fails(cli, project, 3, "build", "mpl", names=("'mpl'", "perhaps you meant 'mlp'"))
    assert "mlp" in error["hint"]


def _samples(**arrays: np.ndarray[Any, Any]) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


_UNFIT = pytest.mark.parametrize(
    ("write", "names"),
    [
        pytest.param(_samples(x=np.zeros((6, 9), np.float32)), ("'x'", "[6, 9]", "8"), id="shape"),
        pytest.param(_samples(x=np.zeros((6, 1, 1, 8), np.float32)), ("'x'", "[6, 1, 1, 8]"), id="rank"),
        pytest.param(_samples(x=np.zeros((6, 8), np.float64)), ("'x'", "float64", "float32"), id="dtype"),
        pytest.param(_samples(z=np.zeros((6, 8), np.float32)), ("['z']", "['x']"), id="names"),
        pytest.param(
            _samples(x=np.zeros((6, 8), np.float32), z=np.zeros(6, np.float32)),
            ("'z'", "['x']"),
            id="extra-name",
        ),
        pytest.param(_samples(x=np.zeros((0, 8), np.float32)), ("first axis",), id="no-sample"),
        pytest.param(_samples(x=np.array([{"a": 1}], dtype=object)), ("cannot be read",), id="pickled"),
        pytest.param(lambda path: path.write_bytes(b"PK\x03\x04 not a zip"), ("cannot be read",), id="damaged"),
        pytest.param(lambda path: path.write_text("1,2,3\n"), ("cannot be read",), id="text"),
        pytest.param(lambda path: path.write_bytes(b""), ("cannot be read",), id="empty"),
        pytest.param(lambda path: None, ("does not exist",), id="missing"),
    ],
)


@_UNFIT
def test_samples_that_do_not_fit(
    cli: Cli, project: Path, write: Callable[[Path], None], names: tuple[str, ...]
) -> None:
    write(project / "samples.npz")
    _configure(project, "    data: {samples: samples.npz}")
    fails(cli, project, 3, "build", names=("samples.npz", *names))


@_UNFIT
def test_calibration_data_that_does_not_fit(
    cli: Cli, project: Path, write: Callable[[Path], None], names: tuple[str, ...]
) -> None:
    write(project / "calibration.npz")
    _configure(project, "    data: {calibration: calibration.npz}")
    fails(cli, project, 3, "build", names=("calibration.npz", *names))


def test_calibration_data_without_a_range(cli: Cli, project: Path) -> None:
    np.savez(project / "calibration.npz", x=np.full((6, 8), np.nan, np.float32))
    _configure(project, "    data: {calibration: calibration.npz}", "    optimize: {recipes: [int8-static]}")
    fails(cli, project, 3, "build", names=("calibration.npz", "'x'", "nan", "[0, 0]"))


def test_calibration_data_that_the_model_refuses(cli: Cli, project: Path) -> None:
    """Shape and type fit, the numbers do not: the table that they look up has fewer rows."""
    shutil.copy(MODELS / "tokens.onnx", project / "mlp.onnx")
    np.savez(project / "calibration.npz", ids=np.full((6, 5), 10**6))
    _configure(project, "    data: {calibration: calibration.npz}", "    optimize: {recipes: [int8-static]}")
    fails(cli, project, 4, "build", names=("data.calibration", "set 0 of"))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param(np.zeros(5, np.int64), ("[5]", "6 samples"), id="length"),
        pytest.param(np.zeros((6, 2), np.int64), ("[6, 2]", "6 samples"), id="rank"),
        pytest.param(np.array([None] * 6), ("cannot be read",), id="pickled"),
    ],
)
def test_labels_that_do_not_fit(cli: Cli, project: Path, labels: np.ndarray[Any, Any], names: tuple[str, ...]) -> None:
    np.savez(project / "samples.npz", x=np.zeros((6, 8), np.float32))
    np.save(project / "labels.npy", labels)
    _configure(project, "    data: {samples: samples.npz, labels: labels.npy}")
    fails(cli, project, 3, "build", names=("labels.npy", *names))


@pytest.mark.parametrize(
    ("option", "value", "names"),
    [
        ("--recipe", "fp61", ("'fp61'", "fp16")),
        ("--recipe", "", ("''", "fp16")),
        ("--provider", "cudo", ("'cudo'", "cuda")),
        ("--outptu", "here", ("--outptu", "--output")),
    ],
)
def test_an_option_that_nobody_knows(cli: Cli, project: Path, option: str, value: str, names: tuple[str, ...]) -> None:
    fails(cli, project, 2, "build", "mlp.onnx", option, value, names=names)
    assert not (project / "artifacts").exists()


def test_a_relative_output_is_where_the_user_is(cli: Cli, project: Path) -> None:
    done = cli("build", "mlp.onnx", "--output", "out", "--json")
    assert done.code == 0, done.err
    assert folder.damage(project / "out" / "mlp" / "artifact_v1") == []
    assert done.json["data"]["artifacts"][0]["path"] == "out/mlp/artifact_v1"


@pytest.mark.parametrize(("provider", "extra"), [("cuda", "gpu"), ("openvino", "openvino"), ("qnn", "qnn")])
def test_a_provider_that_is_not_installed(cli: Cli, project: Path, provider: str, extra: str) -> None:
    error = fails(cli, project, 9, "build", "mlp.onnx", "--provider", provider, names=(provider, "cpu"))
    assert f"pip install 'artifactctl[{extra}]'" in error["hint"]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        pytest.param(None, ("does not exist",), id="missing"),
        pytest.param("{passes:", ("JSON",), id="not-json"),
        pytest.param("[]", ("passes",), id="a-list"),
        pytest.param('{"output_dir": "out"}', ("passes",), id="no-passes"),
        pytest.param('{"passes": {}}', ("passes",), id="empty-passes"),
        pytest.param('{"passes": [{"type": "OnnxDynamicQuantization"}]}', ("passes",), id="passes-as-a-list"),
    ],
)
def test_an_olive_file_that_is_none(cli: Cli, project: Path, content: str | None, names: tuple[str, ...]) -> None:
    if content is not None:
        (project / "mine.json").write_text(content)
    fails(cli, project, 3, "build", "mlp.onnx", "--recipe", "olive:mine.json", names=("mine.json", *names))


def test_a_bound_for_an_output_that_does_not_exist(cli: Cli, project: Path) -> None:
    text = "schema_version: 1\nmodels:\n  mlp:\n    source: {onnx: mlp.onnx}\n"
    (project / "artifactctl.yaml").write_text(text + "    equivalence: {outputs: {logit: {max_abs: 0.1}}}\n")
    fails(cli, project, 3, "build", names=("logit", "y"))


def test_an_olive_file_without_a_configuration_is_relative_to_here(cli: Cli, project: Path) -> None:
    error = fails(cli, project, 3, "build", "mlp.onnx", "--recipe", "olive:mine.json", names=("mine.json",))
    assert "artifactctl.yaml" not in error["hint"], "there is no configuration to be relative to"


@pytest.mark.parametrize(
    ("passes", "names"),
    [
        pytest.param('{"q": {"type": "OnnxMagic"}}', ("'OnnxMagic'", "Mend 'type' in the Olive file"), id="unknown"),
        pytest.param(
            '{"q": {"type": "OnnxDynamicQuantisation"}}',
            ("perhaps you meant 'OnnxDynamicQuantization'",),
            id="misspelt",
        ),
        pytest.param('{"q": "OnnxDynamicQuantization"}', ("'q'",), id="not-a-mapping"),
        pytest.param(
            '{"q": {}}', ("the pass 'q' of the Olive file has no 'type'", "OnnxDynamicQuantization"), id="no-type"
        ),
        pytest.param('{"g": {"type": "GraphSurgeries"}}', ("surgeries", "required"), id="no-key"),
    ],
)
def test_an_olive_pass_that_nobody_knows(cli: Cli, project: Path, passes: str, names: tuple[str, ...]) -> None:
    (project / "mine.json").write_text(f'{{"passes": {passes}}}')
    error = fails(
        cli, project, 5, "build", "mlp.onnx", "--recipe", "olive:mine.json", names=("olive:mine.json", *names)
    )
    assert "-v" in error["hint"]


def test_a_pass_whose_package_is_missing_costs_the_others_nothing(cli: Cli, project: Path) -> None:
    (project / "mine.json").write_text('{"passes": {"q": {"type": "IncDynamicQuantization"}}}')
    done = cli("build", "mlp.onnx", "--recipe", "fp32", "--recipe", "olive:mine.json", "--json")
    assert done.code == 0, done.err
    found = {item["recipe"]: item for item in done.json["data"]["artifacts"][0]["candidates"]}
    assert "neural-compressor" in found["olive:mine.json"]["reason"]
    assert found["fp32"]["equivalence"]["samples"]


def test_a_pass_that_never_ends_costs_the_others_nothing(cli: Cli, project: Path) -> None:
    """It is named, so no budget ends it; the time limit of any operation does."""
    script = project / "endless.py"
    script.write_text("while True:\n    pass\n")
    data = {"name": "d", "user_script": str(script), "load_dataset_config": {"type": "endless"}}
    passes = {"q": {"type": "OnnxStaticQuantization", "data_config": "d"}}
    (project / "mine.json").write_text(json.dumps({"data_configs": [data], "passes": passes}))
    recipes = ("--recipe", "fp32", "--recipe", "olive:mine.json")
    done = cli("build", "mlp.onnx", *recipes, "--time-limit", "20", "--json")
    assert done.code == 0, done.err
    found = {item["recipe"]: item for item in done.json["data"]["artifacts"][0]["candidates"]}
    late = "Olive's process did not end within the time limit; give it more with --time-limit S"
    assert found["olive:mine.json"]["reason"] == late
    assert found["fp32"]["equivalence"]["samples"]


def test_an_olive_file_that_gives_several_models(cli: Cli, project: Path) -> None:
    model = onnx.load(project / "mlp.onnx")
    for node in model.graph.node:
        node.name = f"net.{node.output[0]}.{node.op_type}"
    onnx.save(model, project / "mlp.onnx")
    where = {f"net.{node.output[0]}": min(number, 1) for number, node in enumerate(model.graph.node)}
    (project / "mine.json").write_text(
        json.dumps({"passes": {"s": {"type": "SplitModel", "split_assignments": where}}})
    )
    names = ("olive:mine.json", "2 ONNX models where one is needed", "split_0.onnx", "split_1.onnx")
    fails(cli, project, 5, "build", "mlp.onnx", "--recipe", "olive:mine.json", names=names)
