"""The search of `auto`: its budget, its objective, and the settings of the session."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from artifactctl import schema
from artifactctl.recipes import RECIPES
from tests.conftest import MODELS, Finished

Cli = Callable[..., Finished]
LATE = "not tried: optimize.budget_s ended before its turn"


def project(place: Path, model: str, **optimize: Any) -> None:
    shutil.copy(MODELS / f"{model}.onnx", place)
    entry = {"source": {"onnx": f"{model}.onnx"}, "latency": {"budget_s": 2}, "optimize": optimize}
    text = yaml.safe_dump({"schema_version": 1, "models": {model: entry}})
    (place / "artifactctl.yaml").write_text(text, encoding="utf-8")


def candidates(done: Finished) -> dict[str, Any]:
    assert done.code == 0, done.err
    return {entry["recipe"]: entry for entry in done.json["data"]["artifacts"][0]["candidates"]}


def test_a_search_ends_with_its_budget(cli: Cli, tmp_path: Path) -> None:
    """The first recipe is always tried, and a rebuild passes by what was passed by."""
    project(tmp_path, "mlp", budget_s=0.001)
    found = candidates(cli("build", "--json"))
    assert found["fp32"]["reason"] != LATE
    assert {found[name]["reason"] for name in ("slim", "peephole", "fp16", "int8-dynamic")} == {LATE}
    again = cli("rebuild", "--check", "--exact", "artifacts/mlp/artifact_v1")
    assert again.code == 0, again.err


def test_recipes_that_are_named_are_always_tried(cli: Cli, tmp_path: Path) -> None:
    project(tmp_path, "mlp", budget_s=0.001, recipes=["fp32", "fp16"])
    assert LATE not in {entry["reason"] for entry in candidates(cli("build", "--json")).values()}


def test_the_budget_holds_for_auto_beside_recipes_that_are_named(cli: Cli, tmp_path: Path) -> None:
    project(tmp_path, "mlp", budget_s=0.001, recipes=["auto", "int4"])
    found = candidates(cli("build", "--json"))
    assert {found[name]["reason"] for name in ("slim", "fp16", "int8-dynamic")} == {LATE}
    assert not found["int4"]["reason"].startswith("not tried")


def test_a_pass_that_returns_its_input_changed_nothing(cli: Cli, tmp_path: Path) -> None:
    project(tmp_path, "mlp", recipes=["slim", "fp32"])
    assert candidates(cli("build", "--json"))["slim"]["reason"].startswith("changed nothing: ")


@pytest.mark.parametrize(("objective", "word"), [("size", "smaller"), ("memory", "leaner"), ("load", "faster to load")])
def test_what_the_best_is_best_at(cli: Cli, tmp_path: Path, objective: str, word: str) -> None:
    project(tmp_path, "cnn", objective=objective, recipes=["fp32"])
    chosen = candidates(cli("build", "--json"))["fp32"]
    if chosen["status"] == "chosen":  # else it is proved slower on this machine, in this minute
        assert chosen["reason"].endswith(f"no other is proved {word}")
    evidence = json.loads((tmp_path / "artifacts/cnn/artifact_v1/evidence/latency.cpu.json").read_text())
    latency = evidence["candidates"][0]["latency"]
    assert (latency["candidate"]["peak_rss_mb"] is not None) is (objective == "memory")
    assert latency["load"]["ratio_low"] <= latency["load"]["ratio"] <= latency["load"]["ratio_high"]
    assert cli("build").out.startswith("cnn: unchanged")
    project(tmp_path, "cnn", recipes=["fp32"])
    assert cli("build", "--check").code == 11, "another objective may choose another model"


def test_a_small_file_is_looked_for_before_a_slow_search(cli: Cli, tmp_path: Path) -> None:
    """int4 is simple to make and wins size; which layers may be int8 takes long to find out, and comes last."""
    np.savez(tmp_path / "s.npz", x=np.random.default_rng(5).uniform(-1, 1, (64, 16, 8, 8)).astype(np.float32))
    project(tmp_path, "fragile", objective="size")
    file = tmp_path / "artifactctl.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["models"]["fragile"] |= {"data": {"samples": "s.npz"}, "equivalence": {"max_abs": 0.02}}
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = cli("build", "--json")
    found = candidates(done)
    made = [line.split()[2].rstrip(":") for line in done.err.splitlines() if line.endswith(": optimizing")]
    assert made.index("int4-128") < made.index("int8-partial")
    assert list(found) == [name for name in RECIPES if name in found] + ["source"], "told in the order of simplicity"
    holding = {name: entry["size_bytes"] for name, entry in found.items() if entry["status"] != "rejected"}
    (chosen,) = (name for name, entry in found.items() if entry["status"] == "chosen")
    assert holding[chosen] * 0.99 <= min(holding.values())


def test_the_settings_of_the_session_are_proved_and_timed(cli: Cli, tmp_path: Path) -> None:
    project(tmp_path, "cnn", session=True, recipes=["fp32"])
    candidates(cli("build", "--json"))
    artifact = tmp_path / "artifacts/cnn/artifact_v1"
    evidence = json.loads((artifact / "evidence/latency.cpu.json").read_text())
    assert schema.problems(evidence, "latency") == []
    tried = {entry["setting"] for entry in evidence["tuning"]}
    assert {"graph_level", "flush_denormals", "memory_pattern", "arena"} <= tried
    session = yaml.safe_load((artifact / "metadata.yaml").read_text())["session"]
    adopted = {entry["setting"]: entry["value"] for entry in evidence["tuning"] if entry["adopted"]}
    assert {name: session[name] for name in adopted} == adopted
    assert cli("verify", "artifacts/cnn/artifact_v1").code == 0
    assert cli("rebuild", "--check", "--exact", "artifacts/cnn/artifact_v1").code == 0


@pytest.mark.parametrize(
    ("optimize", "said"),
    [
        ({"objective": "fun"}, "latency, size, memory, load"),
        ({"budget_s": 0}, "artifactctl.yaml:6:"),
        ({"budget_s": "soon"}, "'soon' is not number"),
        ({"session": "yes please"}, "'yes please' is not boolean"),
    ],
)
def test_bad_settings_are_named(cli: Cli, tmp_path: Path, optimize: dict[str, Any], said: str) -> None:
    project(tmp_path, "mlp", **optimize)
    done = cli("check")
    assert done.code == 3
    assert said in done.err


def test_where_nothing_is_small_enough_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    """The source is no way out of a budget."""
    project(tmp_path, "cnn", recipes=["fp32"])
    file = tmp_path / "artifactctl.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["models"]["cnn"]["size"] = {"max_mb": 0.0001}
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = cli("build", "--json")
    assert done.code == 7, done.err
    assert "over size.max_mb 0.0001" in done.json["error"]["message"]
    assert "--recipe" in done.json["error"]["hint"]
    assert not (tmp_path / "artifacts/cnn").exists()
