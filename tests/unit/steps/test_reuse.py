"""What a candidate is made from, what of it is kept, and that it comes back as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl import participants, recipes
from artifactctl.cache import Cache, key_of
from artifactctl.folder import FileDigest
from artifactctl.project import Data, ModelConfig, Source
from artifactctl.records import Candidate, PassResult, ReferenceModel, Session, SourceModel
from artifactctl.steps import reuse
from artifactctl.steps.ingredients import Kitchen, Pantry

PLAN = {"seed": 1, "inputs": [{"name": "x"}], "sets": [], "entries": {}}
CHANGED, UNCHANGED = PassResult("a", "changed"), PassResult("b", "unchanged")


def reference(root: Path, **changes: Any) -> ReferenceModel:
    config = ModelConfig("m", Source("onnx", "m.onnx"), Data(samples="s.npz", calibration="c.npz"))
    files = tuple(FileDigest(name, digit * 64, 1) for name, digit in (("m.onnx", "1"), ("s.npz", "2"), ("c.npz", "3")))
    source = SourceModel(config, root, root / "m.onnx", files)
    session = Session("cpu", "CPUExecutionProvider", 1)
    made = ReferenceModel(source, root / "m.onnx", "f" * 64, 18, "fp32", 1, "onnx", PLAN, root, session, {})
    return replace(made, **changes)


def kitchen(found: ReferenceModel) -> Kitchen:
    return Kitchen(found, Pantry({}), found.samples, crew=None)  # type: ignore[arg-type] # nothing is run


def with_file(found: ReferenceModel, name: str, digest: str) -> ReferenceModel:
    files = tuple(replace(entry, sha256=digest) if entry.path == name else entry for entry in found.source.files)
    return replace(found, source=replace(found.source, files=files))


def test_the_key_changes_with_everything_that_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = reference(tmp_path)
    others = [
        (base, "fp16"),
        (replace(base, sha256="e" * 64), "fp32"),
        (replace(base, plan=PLAN | {"seed": 2}), "fp32"),
        (with_file(base, "c.npz", "9" * 64), "fp32"),
        (with_file(base, "s.npz", "9" * 64), "fp32"),
        (replace(base, source=replace(base.source, config=replace(base.source.config, providers=("cpu", "openvino")))),
         "fp32"),
    ]  # fmt: skip
    keys = [
        key_of(found) for item, name in [(base, "fp32"), *others] if (found := reuse.inputs_of(kitchen(item), name))
    ]
    monkeypatch.setattr(recipes, "RECIPES_VERSION", 99)
    keys.append(key_of(reuse.inputs_of(kitchen(base), "fp32") or {}))
    monkeypatch.undo()
    fp32 = recipes.RECIPES["fp32"]
    again = {"fp32": replace(fp32, passes=(replace(fp32.passes[0], config={"rewrites": ["nop"]}), *fp32.passes[1:]))}
    monkeypatch.setattr(recipes, "RECIPES", again)
    keys.append(key_of(reuse.inputs_of(kitchen(base), "fp32") or {}))
    assert len(set(keys)) == len(others) + 3


def test_the_key_holds_every_package_that_takes_part(tmp_path: Path) -> None:
    found = reuse.inputs_of(kitchen(reference(tmp_path)), "int8-dynamic")
    assert found is not None
    here = found["made_by"]["packages"]
    assert here["torch"]
    assert {"olive-ai", "onnx", "onnxruntime", "onnxoptimizer", "numpy", "protobuf", "transformers"} <= here.keys()
    assert found["made_by"] == participants.describe()
    code = {path.name for path in participants.own_files() if path.is_file()}
    assert {
        "validate.py",
        "recipes.py",
        "optimize.py",
        "ingredients.py",
        "algebra.py",
    } <= code  # the first makes inputs
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("asked", "cached"),
    [
        ({"passes": {"q": {"type": "OnnxDynamicQuantization", "per_channel": True}}}, True),
        ({"passes": {"q": [{"type": "A"}, {"type": "B"}]}, "log_severity_level": 0, "cache_dir": "x/y"}, True),
        ({"passes": {"q": {"type": "A", "user_script": "mine.py"}}}, False),
        ({"passes": {"q": {"type": "A", "nested": [{"data_dir": "data/all"}]}}}, False),
        ({"passes": {"q": {"type": "A"}}, "data_configs": [{"name": "d"}]}, False),
        ({"passes": {"q": {"type": "A"}}, "systems": {}}, False),
    ],
)
def test_an_olive_file_is_cached_where_it_names_nothing_outside(
    tmp_path: Path, asked: dict[str, Any], cached: bool
) -> None:
    (tmp_path / "o.json").write_text(json.dumps(asked))
    assert (reuse.inputs_of(kitchen(reference(tmp_path)), "olive:o.json") is not None) is cached


@pytest.mark.parametrize(
    ("candidate", "lasting"),
    [
        (Candidate("r", Path("m"), "fp32", passes=(CHANGED,)), True),
        (Candidate("r", None, "fp32", passes=(UNCHANGED,), failure="changed nothing"), True),
        (Candidate("r", None, "fp32", failure="does not apply"), False),
        (Candidate("r", Path("m"), "fp32", passes=(PassResult("c", "left-out", "no"), CHANGED)), True),
        (Candidate("r", Path("m"), "fp32", passes=(CHANGED, PassResult("c", "failed", "no"))), False),
        (Candidate("r", None, "fp32", passes=(PassResult("c", "failed"),), failure="no", broken=True), False),
        (Candidate("r", None, "fp32", passes=(UNCHANGED,), failure="no", died=True), False),
    ],
)
def test_only_what_will_be_the_same_again_is_kept(candidate: Candidate, lasting: bool) -> None:
    assert reuse.is_lasting(candidate) is lasting


def test_a_candidate_comes_back_with_its_stages(tmp_path: Path) -> None:
    paths = []
    for name in ("first", "second", "candidate"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes(name.encode())
        (tmp_path / name / "model.onnx.data").write_bytes(name.encode() * 2)
        paths.append(tmp_path / name / "model.onnx")
    stages = (("one", paths[0]), ("two", paths[1]))
    before = Candidate("fp32", paths[2], "fp32", 30, (CHANGED, UNCHANGED), stages=stages)
    about, files = reuse._about(before)
    store = Cache(tmp_path / "cache", lambda _: None)
    assert store.store({"k": 1}, about, files)
    found = store.fetch({"k": 1}, tmp_path / "taken")
    assert found is not None
    after = reuse._restored(found, tmp_path / "taken", kitchen(reference(tmp_path)), "fp32")
    assert replace(after, path=before.path, stages=stages) == before
    assert after.path is not None
    assert after.path.read_bytes() == b"candidate"
    assert after.path.with_name("model.onnx.data").read_bytes() == b"candidatecandidate"
    assert [(label, path.read_bytes()) for label, path in after.stages] == [("one", b"first"), ("two", b"candidate")]
