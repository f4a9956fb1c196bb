"""A profile, or two side by side, for machines and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl.folder import shown
from artifactctl.report.text import table
from artifactctl.steps.profile import node_changes, operator_changes

if TYPE_CHECKING:
    from artifactctl.steps.profile import Change, Profile

TOP = 10
NAME, SHAPES = 48, 64


def profile_data(profiles: Sequence[Profile], traces: Sequence[Path], origin: str) -> dict[str, Any]:
    """The first profile is the candidate's, the second, where there is one, the baseline's."""
    sides = [_side(found, trace) for found, trace in zip(profiles, traces, strict=True)]
    changes = None
    if len(profiles) > 1:
        candidate, baseline = profiles
        changes = {
            "operators": [_change(change, node=False) for change in operator_changes(candidate, baseline)],
            "nodes": [_change(change, node=True) for change in node_changes(candidate, baseline)],
        }
    return {
        "provider": profiles[0].session.provider,
        "inputs": origin,
        "candidate": sides[0],
        "baseline": sides[1] if sides[1:] else None,
        "changes": changes,
    }


def _side(found: Profile, trace: Path) -> dict[str, Any]:
    return {
        "model": found.model,
        "path": found.path,
        "trace": shown(trace),
        "threads": found.session.intra_op_threads,
        "graph_level": found.session.graph_level,
        "runs": found.runs,
        "warm_up_runs": found.warm_up_runs,
        "run_us": found.run_us,
        "nodes_us": found.nodes_us,
        "outside_us": found.outside_us,
        "outside_share": found.outside_share,
        "operators": [asdict(entry) for entry in found.operators],
        "nodes": [asdict(node) for node in found.nodes],
    }


def _change(change: Change, *, node: bool) -> dict[str, Any]:
    data = asdict(change) | {"change_us": change.change_us, "status": change.status}
    if node:
        return data
    keys = ("status", "candidate_us", "baseline_us", "change_us")
    return {"operator": change.name} | {key: data[key] for key in keys}


def profile_text(data: Mapping[str, Any]) -> str:
    sides = {name: data[name] for name in ("candidate", "baseline") if data[name]}
    parts = _compared(data["changes"]) if data["changes"] else _alone(data["candidate"])
    lines = [f"{name if data['baseline'] else 'model':<9} {_summary(side)}" for name, side in sides.items()]
    lines.append(f"settings  {_session(data)}, on {data['inputs']}")
    if any(node["inside"] for side in sides.values() for node in side["nodes"]):
        lines.append(
            "bodies    the time of If, Loop or Scan is without the nodes in its body: it is the work between them"
        )
    lines.append(
        "times     medians of one run on this machine with the profiler at work; no verdict is drawn from them"
    )
    lines += [
        f"trace     {side['trace']} (its first {side['warm_up_runs']} runs are warm-up)" for side in sides.values()
    ]
    lines.append("          open it in chrome://tracing or at https://ui.perfetto.dev")
    return "\n".join([*parts, "", *lines])


def _session(data: Mapping[str, Any]) -> str:
    levels = dict.fromkeys(data[name]["graph_level"] for name in ("candidate", "baseline") if data[name])
    threads = data["candidate"]["threads"]
    return f"{data['provider']}, {threads} thread{'s' * (threads != 1)}, graph level {' and '.join(levels)}"


def _summary(side: Mapping[str, Any]) -> str:
    return (
        f"{side['path']}: {_us(side['run_us'])} a run over {side['runs']} runs, {len(side['nodes'])} nodes, "
        f"{side['outside_share']:.1%} outside of them"
    )


def _alone(side: Mapping[str, Any]) -> list[str]:
    kinds = [
        (
            entry["operator"], _us(entry["time_us"]), f"{entry['share']:.1%}", f"{entry['calls']:g}",
            str(entry["nodes"]), ", ".join(map(_short, entry["providers"])),
        )
        for entry in side["operators"][:TOP]
    ]  # fmt: skip
    nodes = [
        (
            _cut(node["name"]), node["operator"], _us(node["time_us"]), f"{node['share']:.1%}", f"{node['calls']:g}",
            _short(node["provider"]), _shapes(node),
        )
        for node in side["nodes"][:TOP]
    ]  # fmt: skip
    return [
        table(("operator", "time", "share", "calls", "nodes", "provider"), kinds),
        *_rest(side["operators"], "operators"),
        "",
        table(("node", "operator", "time", "share", "calls", "provider", "shapes"), nodes),
        *_rest(side["nodes"], "nodes"),
    ]


def _compared(changes: Mapping[str, Any]) -> list[str]:
    kinds = [(entry["operator"], *_times(entry)) for entry in changes["operators"][:TOP]]
    nodes = [(_cut(entry["name"]), _kinds(entry), *_times(entry)) for entry in changes["nodes"][:TOP]]
    head = ("baseline", "candidate", "change", "status")
    return [
        table(("operator", *head), kinds),
        *_rest(changes["operators"], "operators"),
        "",
        table(("node", "operator", *head), nodes),
        *_rest(changes["nodes"], "nodes"),
    ]


def _times(entry: Mapping[str, Any]) -> tuple[str, ...]:
    status = "" if entry["status"] == "both" else entry["status"]
    change = f"{entry['change_us']:+,.1f} µs"
    return (_us(entry["baseline_us"]), _us(entry["candidate_us"]), change, status)


def _kinds(entry: Mapping[str, Any]) -> str:
    return " → ".join(dict.fromkeys(filter(None, (entry["baseline_operator"], entry["candidate_operator"]))))


def _rest(entries: Sequence[Any], what: str) -> list[str]:
    return [f"… and {len(entries) - TOP} more {what}"] if len(entries) > TOP else []


def _shapes(node: Mapping[str, Any]) -> str:
    text = f"{', '.join(node['inputs']) or '–'} → {', '.join(node['outputs']) or '–'}"
    text = text if len(text) <= SHAPES else f"{text[: SHAPES - 1]}…"
    return f"{text} and others" if node["shapes_vary"] else text


def _us(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} µs"


def _short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def _cut(name: str) -> str:
    """Names are paths into the model: their ends tell them apart. They may hold anything."""
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= NAME else f"…{name[-NAME + 1 :]}"
