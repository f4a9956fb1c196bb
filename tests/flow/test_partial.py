"""int8 for the layers that the bound allows, where int8 for all of them breaks it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from artifactctl import config, folder, likeness, metadata, pipeline, schema
from artifactctl.crew import Crew
from artifactctl.folder import ArtifactFolder
from artifactctl.project import BuildRequest
from tests.conftest import MODELS, Finished

Cli = Callable[..., Finished]


SEEN = {"x": (16, 8, 8), "z": (1, 1, 1)}  # what is calibrated with


def prepare(place: Path, max_abs: float, recipes: list[str], name: str = "fragile") -> None:
    place.mkdir(exist_ok=True)
    shutil.copy(MODELS / f"{name}.onnx", place)
    rng = np.random.default_rng(3)
    inputs = ("x", "z") if name == "rare" else ("x",)
    arrays = {key: rng.uniform(-1, 1, (64, *SEEN[key])).astype(np.float32) for key in inputs}
    np.savez(place / "c.npz", **arrays)  # type: ignore[arg-type]
    ranges = {"x": {"range": [-1, 1]}, "z": {"range": [-3, 3]}}
    model = {
        "source": {"onnx": f"{name}.onnx", "inputs": {key: ranges[key] for key in inputs}},
        "data": {"calibration": "c.npz"},
        "latency": {"budget_s": 2},
        "optimize": {"recipes": recipes},
        "equivalence": {"max_abs": max_abs},
    }
    (place / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {name: model}}))


def build(
    cli: Cli, place: Path, max_abs: float, recipes: list[str], name: str = "fragile"
) -> dict[str, dict[str, Any]]:
    prepare(place, max_abs, recipes, name)
    done = cli("build", "--json", cwd=place)
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    return {item["recipe"]: item for item in done.json["data"]["artifacts"][0]["candidates"]}


def test_the_fragile_layer_stays_float(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, 0.02, ["int8-static", "int8-partial"])
    assert "not equivalent" in found["int8-static"]["reason"]
    partial = found["int8-partial"]
    assert partial["equivalence"]["max_error"] < 0.9 * 0.02
    said = partial["passes"][-1]["detail"]
    assert "1 of 2 layers in int8, 50% of the multiplications" in said
    path = tmp_path / "artifacts/fragile/artifact_v1"
    curve = json.loads((path / folder.CURVE).read_text())
    assert schema.problems(curve, "quantization") == []
    assert [entry["name"] for entry in curve["layers"]] == ["first", "fragile"]  # the product is too small to matter
    told = [(point["layers"], point["holds"], point["chosen"]) for point in curve["points"]]
    assert told == [(1, True, True), (2, False, False)]
    assert all(point["speed_up"] > 0 for point in curve["points"])
    assert "<circle" in (path / folder.PLOT).read_text()
    assert f"]({folder.PLOT})" in (path / "README.md").read_text()
    assert cli("check", path).code == 0
    assert cli("verify", path).code == 0


def test_a_set_that_fails_loses_the_layer_that_is_to_blame(cli: Cli, tmp_path: Path) -> None:
    """`rare` looks harmless where layers are looked at one by one, and comes before `small` in the order."""
    found = build(cli, tmp_path, 0.02, ["int8-partial"], "rare")
    path = tmp_path / "artifacts/rare/artifact_v1"
    curve = json.loads((path / folder.CURVE).read_text())
    assert schema.problems(curve, "quantization") == []
    order = [entry["name"] for entry in curve["layers"]]
    assert order.index("rare") < order.index("small") < order.index("coarse") == 3
    told = [(point["layers"], point["dropped"], point["holds"], point["chosen"]) for point in curve["points"]]
    assert told == [(2, ["rare"], True, True), (3, [], False, False), (4, [], False, False)]
    assert "2 of 4 layers in int8" in found["int8-partial"]["passes"][-1]["detail"]
    assert "; 1 taken out for the error with the others" in found["int8-partial"]["passes"][-1]["detail"]
    assert cli("verify", path).code == 0


def test_where_no_layer_holds_the_least_harmful_is_named(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, 1e-6, ["int8-partial"])
    assert found["source"]["status"] == "chosen"
    reason = found["int8-partial"]["reason"]
    assert reason.startswith("does not apply: no node can be int8 inside the bound; the least harmful, ")
    path = tmp_path / "artifacts/fragile/artifact_v1"
    curve = json.loads((path / folder.CURVE).read_text())
    assert schema.problems(curve, "quantization") == []
    assert curve["refusal"] == reason
    assert [(point["layers"], point["chosen"]) for point in curve["points"]] == [(2, False)]
    assert cli("check", path).code == 0


def test_where_all_layers_hold_there_is_no_curve(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, 10, ["int8-static", "int8-partial"])
    assert found["int8-partial"]["reason"] == "does not apply: int8-static holds as a whole"
    assert not (tmp_path / "artifacts/fragile/artifact_v1" / folder.CURVE).exists()


def unmeasured(path: Path) -> dict[str, Any]:
    """The curve without the times."""
    curve: dict[str, Any] = json.loads((path / folder.CURVE).read_text())
    return curve | {"points": [point | {"speed_up": None} for point in curve["points"]]}


def test_the_same_layers_every_time_and_none_for_another_bound(cli: Cli, tmp_path: Path) -> None:
    """Also with a cache: what it has does not know the bound. A rebuild asks no clock which recipe to take."""
    chosen = {"recipe": "int8-partial", "status": "chosen", "reason": "", "latency": {"ratio": 1.0}}

    def made(place: Path, max_abs: float, crew: Crew) -> ArtifactFolder | str:
        prepare(place, max_abs, ["int8-partial"])
        model = config.load(place / "artifactctl.yaml").models["fragile"]
        request = BuildRequest(model, place, place / "artifacts", cache=tmp_path / "cache")
        return pipeline.rebuild(request, {"recipe": {"candidates": [chosen]}, "session": {}}, crew, lambda _: None)

    with Crew() as crew:
        first, second = made(tmp_path / "a", 0.02, crew), made(tmp_path / "b", 0.02, crew)
        tight = made(tmp_path / "c", 1e-6, crew)
    assert isinstance(tight, str)
    assert "no node can be int8 inside the bound" in tight
    assert isinstance(first, ArtifactFolder), first
    assert isinstance(second, ArtifactFolder), second
    one, again = first.path, second.path
    assert "1 of 2 layers" in metadata.read(one)["recipe"]["passes"][-1]["detail"]
    assert (one / folder.MODEL).read_bytes() == (again / folder.MODEL).read_bytes()
    assert metadata.without_measurements(metadata.read(one)) == metadata.without_measurements(metadata.read(again))
    assert unmeasured(one) == unmeasured(again)
    nodes = [node.op_type for node in onnx.load(one / folder.MODEL).graph.node]
    assert nodes.count("QuantizeLinear") == 2  # before the first layer and behind it
    for path in (one, again):
        assert cli("check", path).code == 0
        assert cli("verify", path).code == 0
    statuses = {entry["path"]: entry["status"] for entry in likeness.file_statuses(one, again, second.metadata, False)}
    assert statuses[folder.MODEL] == "equal"
    assert {statuses[folder.CURVE], statuses[folder.PLOT]} <= {"equal", "measured"}
