"""A model, or two -> where the time of a run goes: by operator, by node, and what differs between the two."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.crew import Crew
from artifactctl.project import Say
from artifactctl.records import Session
from artifactctl.steps.sides import Side, demand_comparable, inputs_of, session_of

SIDES = ("candidate", "baseline")
LIMIT_S = 10.0
FAIR_SHARE = 0.2  # of the time limit of a child that the runs of one model may take
LONGEST_NAME = 50  # of a model in a file's name


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    inside: Sequence[str]  # the nodes with a body that it lies in, the outermost first
    operator: str
    provider: str
    time_us: float  # of one run, without the nodes of its own body
    with_body_us: float
    share: float  # of the time of all nodes
    calls: float  # in one run
    inputs: Sequence[str]
    outputs: Sequence[str]
    shapes_vary: bool


@dataclass(frozen=True, slots=True)
class Operator:
    operator: str
    time_us: float
    share: float
    calls: float
    nodes: int
    providers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Profile:
    model: str
    path: str
    trace: Path
    session: Session
    runs: int
    warm_up_runs: int
    run_us: float
    outside_us: float
    nodes: tuple[Node, ...]  # the slowest first

    @property
    def nodes_us(self) -> float:
        return sum(node.time_us for node in self.nodes)

    @property
    def outside_share(self) -> float:
        return self.outside_us / self.run_us if self.run_us else 0.0

    @property
    def operators(self) -> tuple[Operator, ...]:
        kinds: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            kinds[node.operator].append(node)
        found = (_operator(kind, nodes) for kind, nodes in kinds.items())
        return tuple(sorted(found, key=lambda entry: -entry.time_us))


@dataclass(frozen=True, slots=True)
class Change:
    """Of an operator or a node; a side where it does not exist has no time, and counts as zero."""

    name: str
    inside: Sequence[str]
    candidate_operator: str | None
    baseline_operator: str | None
    candidate_us: float | None
    baseline_us: float | None

    @property
    def change_us(self) -> float:
        return (self.candidate_us or 0.0) - (self.baseline_us or 0.0)

    @property
    def status(self) -> str:
        if self.baseline_us is None:
            return "added"
        return "removed" if self.candidate_us is None else "both"


def profile(
    sides: Sequence[Side], provider: str | None, runs: int | None, crew: Crew, say: Say
) -> tuple[list[Profile], str]:
    """The first side is the candidate, the second the baseline; and a word on the inputs that they were run on."""
    say("choosing the inputs")
    sessions: list[Session] = []
    for side in sides:  # on one provider; what the graph is made into is each model's own
        sessions.append(session_of(side, sessions[0].provider if sessions else provider, crew))
    candidate = sides[0]
    for other in sides[1:]:
        demand_comparable(candidate, other, crew)
    inputs, _ = inputs_of(candidate, crew.scratch, crew)
    say(f"running {' and '.join(side.label for side in sides)}")
    results = crew.ask(
        "runner", "profile_models", inputs=str(inputs), runs=runs, prefix=str(crew.scratch / "profile" / "side"),
        seconds=min(LIMIT_S, FAIR_SHARE * crew.limits.time_s),
        models=[
            {"path": str(side.model), "settings": asdict(session)}
            for side, session in zip(sides, sessions, strict=True)
        ],
    )  # fmt: skip
    told = zip(sides, sessions, results, strict=True)
    return [profile_of(side, session, result) for side, session, result in told], _origin(candidate)


def _origin(side: Side) -> str:
    if side.metadata is not None:
        return f"the first sample of {folder.GOLDEN} in {side.label}"
    return f"the first set that 'artifactctl inspect --inputs {side.label}' lists"


def profile_of(side: Side, session: Session, result: Mapping[str, Any]) -> Profile:
    total = sum(node["time_us"] for node in result["nodes"])
    nodes = [Node(share=node["time_us"] / total if total else 0.0, **node) for node in result["nodes"]]
    nodes.sort(key=lambda node: -node.time_us)
    numbers = {key: result[key] for key in ("runs", "warm_up_runs", "run_us", "outside_us")}
    return Profile(side.name, side.label, Path(result["trace"]), session, nodes=tuple(nodes), **numbers)


def _operator(kind: str, nodes: Sequence[Node]) -> Operator:
    return Operator(
        kind,
        sum(node.time_us for node in nodes),
        sum(node.share for node in nodes),
        sum(node.calls for node in nodes),
        len(nodes),
        sorted({node.provider for node in nodes}),
    )


def operator_changes(candidate: Profile, baseline: Profile) -> list[Change]:
    """By kind, the largest change first."""
    times = [{entry.operator: entry.time_us for entry in side.operators} for side in (candidate, baseline)]
    names = list(dict.fromkeys((*times[0], *times[1])))
    changes = [
        Change(
            name, (), name if name in times[0] else None, name if name in times[1] else None,
            times[0].get(name), times[1].get(name),
        )
        for name in names
    ]  # fmt: skip
    return sorted(changes, key=lambda change: -abs(change.change_us))


def node_changes(candidate: Profile, baseline: Profile) -> list[Change]:
    """By name and the nodes that it lies in; what is left over by name alone. The largest change first."""
    pairs, ours, theirs = _match(candidate.nodes, baseline.nodes, lambda node: (*node.inside, node.name))
    more, ours, theirs = _match(ours, theirs, lambda node: (node.name,))
    pairs += more + [(node, None) for node in ours] + [(None, node) for node in theirs]
    changes = [_change(*pair) for pair in pairs]
    return sorted(changes, key=lambda change: -abs(change.change_us))


Pair = tuple[Node | None, Node | None]


def _match(
    ours: Iterable[Node], theirs: Iterable[Node], key: Callable[[Node], tuple[str, ...]]
) -> tuple[list[Pair], list[Node], list[Node]]:
    """Nodes with the same key in pairs; of several with one key the slowest goes with the slowest."""
    waiting: dict[tuple[str, ...], deque[Node]] = defaultdict(deque)
    for node in theirs:
        waiting[key(node)].append(node)
    pairs: list[Pair] = []
    left = []
    for node in ours:
        if others := waiting[key(node)]:
            pairs.append((node, others.popleft()))
        else:
            left.append(node)
    return pairs, left, [node for others in waiting.values() for node in others]


def _change(candidate: Node | None, baseline: Node | None) -> Change:
    named = candidate or baseline
    assert named is not None
    return Change(
        named.name,
        named.inside,
        candidate.operator if candidate else None,
        baseline.operator if baseline else None,
        candidate.time_us if candidate else None,
        baseline.time_us if baseline else None,
    )


def keep_traces(profiles: Sequence[Profile], place: Path) -> list[Path]:
    """<model>.<side>.json in `place`, with a number where that exists already; all of them, or none."""
    place.mkdir(parents=True, exist_ok=True)
    kept: list[Path] = []
    with contextlib.ExitStack() as undo:
        for side, found in zip(SIDES, profiles, strict=False):
            path, stream = _create(place, f"{file_name(found.model)}.{side}")
            undo.callback(path.unlink, missing_ok=True)
            with stream, found.trace.open("rb") as trace:
                shutil.copyfileobj(trace, stream)
            kept.append(path)
        undo.pop_all()
    return kept


def file_name(model: str) -> str:
    return re.sub(r"[^\w.-]+", "-", model)[:LONGEST_NAME] or "model"


def _create(place: Path, name: str) -> tuple[Path, Any]:
    for number in itertools.count(1):
        path = place / (f"{name}.json" if number == 1 else f"{name}.{number}.json")
        with contextlib.suppress(FileExistsError):
            return path, path.open("xb")
    raise AssertionError  # there is always a free number
