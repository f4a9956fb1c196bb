"""The line of artifactctl.yaml that set the bound that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl.ci.blame import Line, line_of

# the first column of each line is what the tests name
CONFIG = """\
schema_version: 1
models:
  other:
    source: {onnx: other.onnx}
    equivalence: {max_abs: 1e-3}
  mlp:
    source:
      onnx: mlp.onnx
    optimize:
      recipes: [fp32]
    equivalence:
      outputs:
        logits:
          max_abs: 1e-2
        scores: {max_abs: null, min_cosine: 0.99}
      max_abs: 1e-3
    latency:
      budget_s: 60
      max_regression: 10%
    providers:
      cpu:
      openvino:
        options: {device_type: CPU}
      qnn:
        options: {}
        max_abs: 0.05
      cuda: {min_cosine: 0.9}
  vision:
    source: {onnx: vision.onnx}
    equivalence:
      max_abs: null
      min_cosine: 0.995
    providers:
      - cpu
      - openvino
  plain:
    source: {onnx: plain.onnx}
"""


def number(start: str, after: str = "") -> int:
    lines = CONFIG.splitlines()
    first = next(index for index, line in enumerate(lines) if line.strip().startswith(after))
    return next(index for index, line in enumerate(lines) if index >= first and line.strip().startswith(start)) + 1


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "artifactctl.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    return tmp_path


SHARED = number("max_abs: 1e-3", "scores")
CASES = {
    "the model's bound": (("NotEquivalent", "", "mlp"), SHARED),
    "on a provider without its own": (("NotEquivalent", "", "mlp", "cpu"), SHARED),
    "on a provider with options only": (("NotEquivalent", "", "mlp", "openvino"), SHARED),
    "on a provider that is not named": (("NotEquivalent", "", "mlp", "webgpu"), SHARED),
    "a provider's own": (("NotEquivalent", "", "mlp", "qnn"), number("max_abs: 0.05")),
    "a provider's own measure": (("NotEquivalent", "", "mlp", "cuda"), number("cuda")),
    "a provider's own stands for all outputs": (("NotEquivalent", "", "mlp", "qnn", ("logits",)), number("max_abs: 0")),
    "an output's own": (("NotEquivalent", "", "mlp", "cpu", ("logits",)), number("max_abs: 1e-2")),
    "an output's own measure": (("NotEquivalent", "", "mlp", "cpu", ("scores",)), number("scores")),
    "an output that the message names": (
        ("NotEquivalent", "mlp: output 'logits': error 1 is over", "mlp"),
        number("max_abs: 1e-2"),
    ),
    "an output without its own": (("NotEquivalent", "", "mlp", "cpu", ("more",)), SHARED),
    "another measure": (("NotEquivalent", "", "vision", "cpu"), number("min_cosine: 0.995")),
    "no bound at all": (("NotEquivalent", "", "plain", "cpu"), number("plain")),
    "too slow": (("LatencyRegression", "", "mlp"), number("max_regression")),
    "not proven": (("NotProven", "", "mlp"), number("budget_s")),
    "no recipe": (("OptimizeError", "", "mlp"), number("recipes")),
    "the source": (("SourceError", "", "mlp"), number("source", "mlp")),
    "a missing cell": (("NotProven", "", "mlp", "qnn"), number("qnn")),
    "a missing cell of a list": (("NotProven", "", "vision", "openvino"), number("- openvino")),
    "a missing cell that is not in the list": (("NotProven", "", "vision", "qnn"), number("providers", "vision")),
    "a model that is not there": (("NotEquivalent", "", "none", "cpu"), number("models")),
    "no model": (("SourceError", "",), number("models")),
    "an error without a key": (("Conflict", "", "mlp"), number("mlp")),
    "a line in the message": (("ConfigError", "artifactctl.yaml:12:3: unknown key"), 12),
    "a line of a file that is not there": (("ConfigError", "http:80:3: x"), number("models")),
}  # fmt: skip


@pytest.mark.parametrize(("words", "line"), CASES.values(), ids=CASES.keys())
def test_the_line(project: Path, words: tuple[str, str], line: int) -> None:
    assert line_of(*words) == Line("artifactctl.yaml", line)


@pytest.mark.parametrize("message", ["", "artifactctl.yaml:12:3: unknown key"])
def test_a_configuration_in_a_folder(project: Path, monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    """GitHub wants paths from the top of the workspace."""
    place = project / "models" / "vision"
    place.mkdir(parents=True)
    (project / "artifactctl.yaml").rename(place / "artifactctl.yaml")
    monkeypatch.chdir(place)
    found = line_of("NotEquivalent", message, "mlp")
    assert found == Line("models/vision/artifactctl.yaml", 12 if message else SHARED)


def test_a_workspace_behind_a_link(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "link").symlink_to(project, target_is_directory=True)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project / "link"))
    assert line_of("NotEquivalent", "", "mlp") == Line("artifactctl.yaml", SHARED)


def test_no_workspace(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert line_of("NotEquivalent", "", "mlp") == Line("artifactctl.yaml", SHARED)


def test_no_configuration(project: Path) -> None:
    (project / "artifactctl.yaml").unlink()
    assert line_of("NotEquivalent", "", "mlp", "cpu") is None


@pytest.mark.parametrize("text", ["", "models", "[1]", "models: [a, b]", "models: {mlp: 3}", "a: [", "\x00"])
def test_a_configuration_that_is_none(project: Path, text: str) -> None:
    """The command itself says what is wrong with it."""
    (project / "artifactctl.yaml").write_text(text)
    for error in ("NotEquivalent", "NotProven"):
        found = line_of(error, "", "mlp", "cpu", ("y",))
        assert found is None or found == Line("artifactctl.yaml", 1)
