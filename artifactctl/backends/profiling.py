"""ONNX Runtime's own profile of a model: a trace of every event, and from it what each node took."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from artifactctl.backends import core, graph
from artifactctl.backends.again import open_model
from artifactctl.backends.messages import first_line
from artifactctl.backends.proof import read_sample
from artifactctl.errors import NotAvailable, SourceError

RUNS = 20
WARM_UPS, SLOW_S = 3, 1.0  # a slow model is warm after one run
LOOPS = {"Loop", "Scan"}
LOOP_SHARE = 0.1  # of the time: an event of a short node in a loop is 600 bytes of trace every few µs
KERNEL = "_kernel_time"
_NAME = re.compile(r'"name" :"(.*?)","args" : \{', re.DOTALL)


@dataclass(slots=True)
class Event:
    """A run of the model (no operator), or a call of one node; times in whole µs since the profiling began."""

    name: str
    start: int
    length: int
    thread: int = 0
    operator: str = ""
    index: str = ""
    provider: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(slots=True)
class Call:
    """A call of a node, the nodes it lies in, and how long the calls directly inside it took."""

    event: Event
    path: tuple[str, ...]
    inner: int = 0

    @property
    def own(self) -> int:
        return max(0, self.event.length - self.inner)


def profile_models(
    models: list[dict[str, Any]], inputs: str, runs: int | None, seconds: float, prefix: str
) -> list[dict[str, Any]]:
    """Each model `path` with its `settings`, in turn: so many runs, or without a number as many of RUNS as fit into
    the time for each. The traces stay in the scratch folder."""
    feeds = read_sample(Path(inputs))["inputs"]
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    if any(node.op_type in LOOPS for model in models for node in _nodes(model)):
        seconds *= LOOP_SHARE
    opened = [
        Opened(model["path"], model["settings"], feeds, f"{prefix}-{number}") for number, model in enumerate(models)
    ]
    deadline = time.perf_counter() + seconds * len(opened)
    for number in range(runs or RUNS):
        for one in opened if number % 2 else opened[::-1]:  # what the machine does meanwhile meets both alike
            one.run()
        if runs is None and time.perf_counter() > deadline:
            break
    return [one.result() for one in opened]


def _nodes(model: dict[str, Any]) -> Iterator[Any]:
    return graph.nodes(graph.load(Path(model["path"]), with_data=False))


class Opened:
    """A model that records what it does; it is warm."""

    def __init__(self, path: str, settings: dict[str, Any], feeds: dict[str, Any], prefix: str) -> None:
        self._path, self._session = path, open_model(path, settings | {"profile": prefix})
        self._call: Callable[[], Any] | None = None
        self._feeds = feeds
        started, self._warm_ups = time.perf_counter(), 0
        while self._warm_ups < WARM_UPS and (not self._warm_ups or time.perf_counter() - started < SLOW_S):
            self.run()
            self._warm_ups += 1

    def run(self) -> None:
        try:
            self._call = self._call or core.prepare(self._session, self._feeds)
            self._call()
        except core.runtime_errors() as error:
            message = f"{Path(self._path).name} cannot be run on these inputs: {first_line(error, self._path)}"
            hint = "Run 'artifactctl inspect FILE --inputs' to see what it takes."
            raise SourceError(message, hint=hint) from None

    def result(self) -> dict[str, Any]:
        trace = Path(self._session.end_profiling())
        return {"trace": str(trace), "warm_up_runs": self._warm_ups} | summarize(read_trace(trace), self._warm_ups)


def read_trace(path: Path) -> list[Event]:
    """The runs and the calls of nodes. A file with names that an older ONNX Runtime did not escape is mended."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        found = json.loads(text, object_hook=_slim)
    except ValueError:
        text = _NAME.sub(lambda match: f'"name" :{json.dumps(match[1])},"args" : {{', text)
        try:
            found = json.loads(text, object_hook=_slim)
        except ValueError as error:
            hint = "Check the space of the temporary folder, and run it again."
            raise NotAvailable(f"the profile that ONNX Runtime wrote is not whole ({error})", hint=hint) from None
        path.write_text(text, encoding="utf-8")
    return [event for event in found if event is not None]


def _slim(entry: dict[str, Any]) -> Any:
    """A million events fit into memory only without what is not reported."""
    if "cat" not in entry or "ts" not in entry:
        return None if "main_thread" in entry else entry
    name, common = str(entry["name"]), {"start": entry["ts"], "length": entry["dur"], "thread": entry["tid"]}
    if name == "model_run":
        return Event(name, **common)
    if entry["cat"] != "Node" or not name.endswith(KERNEL):
        return None
    more = entry["args"]
    return Event(
        name.removesuffix(KERNEL),
        **common,
        operator=more.get("op_name") or "?",  # never empty: that would be a run
        index=more.get("node_index", ""),
        provider=more.get("provider", ""),
        inputs=_shapes(more.get("input_type_shape")),
        outputs=_shapes(more.get("output_type_shape")),
    )


def _shapes(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        return ()
    return tuple(f"{kind}[{','.join(map(str, dims))}]" for value in values for kind, dims in value.items())


def nest(events: Iterable[Event]) -> list[Call]:
    """Calls that lie in one another: a node with a body starts before and ends after every node of the body.

    ONNX Runtime runs the nodes of a session one after the other, so of two calls in one thread either one has ended
    when the other starts, or it is the node whose body the other belongs to.
    """
    calls: list[Call] = []
    open_calls: dict[int, list[Call]] = {}
    numbered = enumerate(event for event in events if event.operator)
    # of two that seem to start and to end together the outer one is recorded later
    for _, event in sorted(numbered, key=lambda item: (item[1].start, -item[1].length, -item[0])):
        around = open_calls.setdefault(event.thread, [])
        while around and around[-1].event.end <= event.start:
            around.pop()
        path: tuple[str, ...] = ()
        if around:
            around[-1].inner += event.length
            path = (*around[-1].path, around[-1].event.name)
        around.append(Call(event, path))
        calls.append(around[-1])
    return calls


class Tally:
    """One node over all runs."""

    def __init__(self, first: Call, runs: int) -> None:
        self._first, self._shapes = first, {(first.event.inputs, first.event.outputs)}
        self._own, self._whole, self._calls = [0] * runs, [0] * runs, [0] * runs

    def add(self, run: int, call: Call) -> None:
        self._own[run] += call.own
        self._whole[run] += call.event.length
        self._calls[run] += 1
        self._shapes.add((call.event.inputs, call.event.outputs))

    def result(self) -> dict[str, Any]:
        event = self._first.event
        return {
            "name": event.name,
            "inside": list(self._first.path),
            "operator": event.operator,
            "provider": event.provider,
            "time_us": median(self._own),
            "with_body_us": median(self._whole),
            "calls": median(self._calls),
            "inputs": list(event.inputs),
            "outputs": list(event.outputs),
            "shapes_vary": len(self._shapes) > 1,
        }


def summarize(events: list[Event], warm_ups: int) -> dict[str, Any]:
    """Medians over the whole runs after the warm-up; the time of a node is without that of the nodes in its body."""
    runs = sorted((event for event in events if not event.operator), key=lambda event: event.start)[warm_ups:]
    if not runs:
        message = "one run has more events than ONNX Runtime records"
        raise SourceError(message, hint="Profile a smaller model, or one whose loops are shorter.")
    starts, spent = [run.start for run in runs], [0] * len(runs)
    tallies: dict[tuple[Any, ...], Tally] = {}
    for call in nest(events):
        number = bisect_right(starts, call.event.start) - 1
        if number < 0 or call.event.start > runs[number].end:  # of a warm-up, or of a run that is not recorded whole
            continue
        key = (call.path, call.event.name, call.event.operator, call.event.index)
        tallies.setdefault(key, Tally(call, len(runs))).add(number, call)
        spent[number] += call.own
    outside = median(max(0, run.length - inside) for run, inside in zip(runs, spent, strict=True))
    nodes = [tally.result() for tally in tallies.values()]
    return {"runs": len(runs), "run_us": median(run.length for run in runs), "outside_us": outside, "nodes": nodes}
