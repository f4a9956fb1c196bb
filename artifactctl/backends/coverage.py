"""What the samples of a plan show: both sides of branches, and outputs that are not constant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from artifactctl.backends import core, graph
from artifactctl.backends.lattice import LARGEST_INPUT, elements
from artifactctl.backends.messages import first_line
from artifactctl.errors import SourceError

OTHER_KINDS = ("scales", "positive", "negative", "tiny", "pixels", "ones", "zeros", "wide", "normal", "uniform")
GUESS_KINDS = ("normal", "scales", "scales", "wide", "scales", "scales")  # at each size: one draw may be unlucky
TELLING = 1e-3  # outputs that differ by less cannot tell models apart

Array = np.ndarray[Any, Any]


def open_judge(file: Path, settings: dict[str, Any]) -> Any:
    try:
        return core.open_session(file, settings)
    except core.runtime_errors() as error:
        message = str(error)
        hint = "Run 'artifactctl inspect FILE' to see what can be read of the model."
        if "No opset import for domain" in message or "is not a registered function/op" in message:
            hint = "It uses an operator that this ONNX Runtime does not have; replace it, or install what carries it."
        elif "IR version" in message or "opset" in message.lower():
            hint = "The model is newer than this ONNX Runtime; export it with an older opset, or upgrade onnxruntime."
        raise SourceError(f"ONNX Runtime cannot load the model: {first_line(error, str(file))}", hint=hint) from None


@dataclass(frozen=True, slots=True)
class Watched:
    """A model file, and the session that is open on it."""

    file: Path
    settings: dict[str, Any]
    session: Any


def cover(model: onnx.ModelProto, watched: Watched, plan: dict[str, Any], guesses: list[dict[str, int]]) -> None:
    """Add sets until both sides of every outer If are taken and every output varies, or nothing helps."""
    made = {name for node in model.graph.node for name in node.output} | {value.name for value in model.graph.input}
    conditions = [node.input[0] for node in model.graph.node if node.op_type == "If" and node.input[0] in made]
    session = _watch(model, watched.file, conditions, watched.settings) if conditions else watched.session
    shown = Shown(session, conditions)
    for index in range(len(plan["sets"])):
        shown.look(plan, index)
    base = plan["sets"][0]["dims"]
    more = [(kind, base) for kind in (*OTHER_KINDS, *OTHER_KINDS)]
    more += [(kind, dims) for dims in guesses for kind in GUESS_KINDS]
    for kind, dims in more:
        if shown.enough:
            break
        if elements(plan["inputs"], dims) > LARGEST_INPUT:
            continue
        plan["sets"].append({"kind": kind, "dims": dims, "draw": plan["draws"]})
        plan["draws"] += 1
        if not shown.look(plan, len(plan["sets"]) - 1):
            plan["sets"].pop()
    plan["branches"] = [{"condition": name, "taken": sorted(sides)} for name, sides in shown.taken.items()]
    outer = sum(node.op_type == "If" for node in model.graph.node)
    plan["unwatched_branches"] = sum(node.op_type == "If" for node in graph.nodes(model)) - outer


class Shown:
    """What the samples so far have shown: sides of branches, and outputs that are not constant."""

    def __init__(self, session: Any, conditions: list[str]) -> None:
        self._session = session
        self.taken: dict[str, set[bool]] = {name: set() for name in conditions}
        self._comparison = core.Comparison()

    def look(self, plan: dict[str, Any], index: int) -> bool:
        """Run one set; True when it showed something new."""
        return self.run(core.make_inputs(plan, [plan["seed"]], index))

    def run(self, feeds: dict[str, Array]) -> bool:
        try:
            leaves = core.run(self._session, feeds)
        except core.runtime_errors():
            return False
        before = self._score()
        for name, sides in self.taken.items():
            sides.add(bool(np.asarray(leaves.pop(name)).reshape(-1)[0]))
        self._comparison.add(leaves, leaves)
        return before != self._score()

    def _score(self) -> tuple[int, int]:
        return sum(map(len, self.taken.values())), sum(not tally.vacuous(TELLING) for tally in self._tallies)

    @property
    def _tallies(self) -> list[Any]:
        return list(self._comparison.tallies.values())

    @property
    def enough(self) -> bool:
        taken = all(len(sides) == 2 for sides in self.taken.values())
        return taken and not any(tally.vacuous(TELLING) for tally in self._tallies)


def branches_taken(path: str, folder: str, settings: dict[str, Any], conditions: list[str]) -> list[dict[str, Any]]:
    """Which sides of the outer branches the samples take, the user's data included."""
    file = Path(path)
    shown = Shown(_watch(graph.load(file, with_data=False), file, conditions, settings), conditions)
    for sample in sorted(Path(folder).glob("*.npz")):
        shown.run(core.read_golden(sample)[0]["inputs"])
    return [{"condition": name, "taken": sorted(sides)} for name, sides in shown.taken.items()]


def _watch(model: onnx.ModelProto, file: Path, conditions: list[str], settings: dict[str, Any]) -> Any:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {value.name for value in watched.graph.output}
    for name in dict.fromkeys(conditions):
        if name not in present:
            watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, None))
    path = file.parent.parent / "watched" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
    graph.save_beside(watched, file, path)
    return open_judge(path, settings)
