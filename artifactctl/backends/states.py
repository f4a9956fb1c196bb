"""State that a model hands from one run to the next: inputs that pair with outputs, and sequences that feed it back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx

from artifactctl.backends import core, graph
from artifactctl.backends.lattice import complete

STEPS = 3  # that follow the first one
REDRAWS = 16
# words that tell the two ends of a state apart
_ENDS = (
    "in|out|input|output|new|next|prev|previous|past|present|old|cur|current|init|initial|final|last|updated|n|t|i|o"
)
_SHORT = re.compile(r"([hc])(x|0|n|_0|_n)*\Z")  # h0 and hn, cx and c_n

_STATEFUL = re.compile(r"state|hidden|cell|cache|memor|past|present|\b[hc]([0nx]|_|\b)", re.IGNORECASE)
_FLOATS = ("float16", "float32", "float64")

Array = np.ndarray[Any, Any]


def pair_states(model: onnx.ModelProto, inputs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Float inputs that pair with an output: by name and shape, or by a shape that the main input does not have."""
    outputs = [value for value in graph.inspect_values(model.graph.output) if value["shape"]]
    asked = [spec for spec in inputs if spec["dtype"] in _FLOATS and spec["shape"]]
    named = [spec for spec in inputs if spec["dtype"] in (*_FLOATS, "int32", "int64") and spec["shape"]]
    if len(inputs) < 2:
        return []
    pairs: dict[str, str] = {}
    for spec in named:
        core_name = _core_name(spec["name"])
        if spec is inputs[0] and not _STATEFUL.search(spec["name"]):
            continue  # what comes first is what the model is about
        for value in outputs:
            same = core_name and core_name == _core_name(value["name"]) and value["dtype"] == spec["dtype"]
            if same and _fits(spec["shape"], value["shape"]) and value["name"] not in pairs.values():
                pairs[spec["name"]] = value["name"]
                break
    if not pairs:
        pairs = _by_shape(inputs[0], asked, outputs)
    return [{"input": name, "output": output} for name, output in pairs.items()]


def _by_shape(main: dict[str, Any], asked: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, str]:
    """As many inputs as outputs of one shape with a known size, none of them the main input or the main output."""
    pairs: dict[str, str] = {}
    shapes = dict.fromkeys(_known(spec["shape"]) for spec in asked)  # in order: a set's order is the machine's
    for shape in [shape for shape in shapes if shape != _known(main["shape"])]:
        taken = [spec["name"] for spec in asked if _known(spec["shape"]) == shape]
        given = [
            value["name"] for value in outputs[1:] if _known(value["shape"]) == shape and value["dtype"] in _FLOATS
        ]
        if len(taken) == len(given) and len(shape) > 1 and any(size is not None and size > 1 for size in shape):
            pairs |= dict(zip(taken, given, strict=True))
    return pairs


def _known(shape: list[int | str | None]) -> tuple[int | None, ...]:
    return tuple(size if isinstance(size, int) else None for size in shape)


def _core_name(name: str) -> str:
    """`past_key_values.0.key` and `present.0.key`, `h_in` and `h_out`, `state` and `stateN` have one core."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    parts = [part for part in re.split(r"[\W_]+", words) if part]
    if "past" in parts and "values" in parts:
        parts = [part for index, part in enumerate(parts) if part != "values" and not (part == "key" and index == 1)]
    text = "_".join(part for part in parts if not re.fullmatch(_ENDS, part))
    return _SHORT.sub(r"\1", text)


def _fits(taken: list[int | str], given: list[int | str | None]) -> bool:
    """Known sizes agree; a free size agrees with anything."""
    if len(taken) != len(given):
        return False
    return all(
        one == other or not isinstance(one, int) or not isinstance(other, int)
        for one, other in zip(taken, given, strict=True)
    )


def continue_sequence(plan: dict[str, Any], session: Any, sums: dict[str, Any]) -> int:
    """Append steps that go on from the last set; how many the model took."""
    entry = plan["sets"][-1]
    try:
        before = core.run(session, core.make_inputs(plan, [plan["seed"]], len(plan["sets"]) - 1))
    except core.runtime_errors():
        return 0
    for step in range(STEPS):
        dims = _next_dims(plan, entry["dims"], before, sums)
        for _ in range(REDRAWS):  # a draw that is refused may only have been an unlucky one
            entry = {"kind": entry["kind"], "dims": dims, "draw": plan["draws"], "follows": True}
            plan["draws"] += 1
            made = core.make_inputs(plan | {"sets": [entry]}, [plan["seed"]], 0)
            try:
                before = core.run(session, core.carry(plan["states"], {"inputs": made, "follows": True}, before))
            except core.runtime_errors():
                continue
            plan["sets"].append(entry)
            break
        else:
            return step
    return STEPS


def _next_dims(
    plan: dict[str, Any], dims: dict[str, int], before: dict[str, Array], sums: dict[str, Any]
) -> dict[str, int]:
    """A state may grow from step to step, and what is declared by the same symbol grows with it."""
    found = dict(dims)
    for pair in plan["states"]:
        spec = next(spec for spec in plan["inputs"] if spec["name"] == pair["input"])
        sizes = before[pair["output"]].shape
        if len(sizes) == len(spec["shape"]):
            found |= {name: int(size) for name, size in zip(spec["shape"], sizes, strict=True) if isinstance(name, str)}
    return complete(found, sums)
