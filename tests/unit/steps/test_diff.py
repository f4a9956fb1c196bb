"""Release notes of real models and artifacts: of a first version, and of names that want to be more than names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from markdown_it import MarkdownIt
from onnx import helper, numpy_helper

from artifactctl import folder, metadata
from artifactctl.crew import Crew
from artifactctl.steps.diff import diff, release_notes
from artifactctl.steps.sides import Side, side_of
from tests.conftest import MODELS
from tests.unit.backends.small import floats, model, node, write

EVIL = "w|`x`\n# Title\n<script>alert(1)</script> \x1b[31m [a](http://e.example) @someone \\"


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as made:
        yield made


def rendered(notes: str) -> str:
    """As HTML; every table is as wide as its head, and there is nothing but what notes are made of."""
    html: str = MarkdownIt("commonmark").enable("table").render(notes)
    assert set(re.findall(r"</?([a-z0-9]+)", html)) <= {
        "h1", "h2", "p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
        width = table.count("<th>")
        assert all(row.count("<td>") in (0, width) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL))
    return html


def test_a_first_version(built: Path, crew: Crew) -> None:
    notes = release_notes(None, side_of(built), crew)
    assert notes.startswith("# mlp artifact_v1\n\nThe first version: 3 operators, 4 weights.\n\n| what | value |\n")
    assert notes.endswith("\n")
    assert "| input | `x` | `float32 [batch, 8]` |" in notes
    assert "| `Gemm` | `ai.onnx` | 2 |" in notes
    assert "Proved: `max_abs ≤ 0.001 · max(1, |r|)`" in notes
    assert "In pairs with its source:" in notes
    assert str(built.parent) not in notes
    assert rendered(notes).count("<h2>") == 6
    assert release_notes(None, side_of(built), crew) == notes


def test_the_same_artifact_twice(built: Path, crew: Crew) -> None:
    notes = release_notes(side_of(built), side_of(built), crew)
    assert "The same model: 3 operators, 4 weights, equal bytes." in notes
    assert "Nothing that is recorded of them differs." in notes


def test_an_artifact_against_a_file(built: Path, crew: Crew) -> None:
    found = diff(side_of(MODELS / "mlp.onnx"), side_of(built), crew)
    assert found.speed["paired"] is None
    assert all(change.section == "model" for change in found.changes)
    notes = release_notes(side_of(built), side_of(MODELS / "mlp.onnx"), crew)
    assert notes.startswith("# `mlp.onnx`\n")
    assert "Not recorded: this is a file, not an artifact." in notes


def test_hostile_names(tmp_path: Path, crew: Crew) -> None:
    paths = []
    for number, evil in enumerate((EVIL, EVIL + "2")):
        array = np.full((2, 2), number, np.float32)
        nodes = [
            node("MatMul", [evil, "`w`|\n"], ["h"]),
            node("Own|`", ["h"], [f"{evil}y"], domain="<b>evil|"),
        ]
        made = model(nodes, [floats(evil, "n|\n<i>", 2)], [floats(f"{evil}y", 2)], {"`w`|\n": array}, ("<b>evil|",))
        made.graph.initializer.append(numpy_helper.from_array(array, evil * (number + 1)))
        paths.append(write(made, tmp_path / f"{number}`<b>|x.onnx"))
    sides = [side_of(Path(path)) for path in paths]
    notes = release_notes(sides[0], sides[1], crew)
    html = rendered(notes)
    assert html.count("<h1>") == 1
    assert "<h1><code>1\\u0060\\u003cb&gt;|x.onnx</code></h1>" in html
    assert "\x1b" not in notes
    assert "<script" not in notes


def test_hostile_metadata(built: Path, crew: Crew) -> None:
    recorded = metadata.read(built)
    recorded["optimization"] = EVIL
    recorded["equivalence"]["statement"] = EVIL
    recorded["reference"]["framework"] = EVIL
    recorded["source"]["license"] = EVIL
    recorded["session"]["options"] = {EVIL: EVIL}
    recorded["environment"]["packages"] = {EVIL: EVIL}
    recorded["source"]["files"] = [{"path": EVIL, "sha256": "0" * 64, "size_bytes": 1}]
    evil = Side("evil", built / folder.MODEL, recorded)
    for previous in (None, side_of(built)):
        html = rendered(release_notes(previous, evil, crew))
        assert html.count("<h1>") == 1
        assert html.count("<h2>") == 6


def test_a_reason_from_elsewhere_stays_code(built: Path, crew: Crew) -> None:
    one = side_of(built)
    recorded = metadata.read(built)
    report = {"verdict": "not-comparable", "limit": 0.1, "against": "artifact_v1", "reason": EVIL, "provider": "cpu"}
    report |= {"ratio": None, "ratio_low": None, "ratio_high": None, "pairs": 0}
    recorded |= {"version": 2, "previous": {"version": 1, "sha256": one.sha256}}
    recorded["latency"] = (recorded["latency"] or {}) | {"previous": report}
    notes = release_notes(one, Side("v2", built / folder.MODEL, recorded), crew)
    assert "Not comparable with artifact_v1: `w|\\u0060x" in notes
    rendered(notes)


def test_functions_and_loops_are_described(tmp_path: Path, crew: Crew) -> None:
    paths = []
    for kind in ("Relu", "Neg"):
        made = model([node("Own", ["x"], ["y"], domain="own")], [floats("x", 2)], [floats("y", 2)], domains=("own",))
        constant = node("Constant", [], ["c"], value_float=1.0)
        body = [constant, node(kind, ["a"], ["h"]), node("Add", ["h", "c"], ["b"])]
        made.functions.append(helper.make_function("own", "Own", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
        onnx.checker.check_model(made)
        paths.append(write(made, tmp_path / f"{kind}.onnx"))
    found = diff(side_of(Path(paths[0])), side_of(Path(paths[1])), crew)
    assert found.model is not None
    assert found.model.equal == "nothing"
    assert [change.operator for change in found.model.operators] == ["Neg", "Relu"]
    assert found.model.weights.same == 1
