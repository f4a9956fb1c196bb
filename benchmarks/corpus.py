"""What `recipes: [auto]` gives on real models, and what others give: python benchmarks/corpus.py [--openvino]

Each model is built by `artifactctl build` as a user would. Then its choice, run with the session that metadata.yaml
records, and the output of every peer at ONNX Runtime's defaults are judged alike: proved against the source's own
answers, timed in pairs against the source at ONNX Runtime's defaults on the CPU provider with the same threads.
`speed` is the source's time divided by the candidate's; what breaks the bound or does not load counts as 1. There is a
table for each bound; a peer's model is the same at all of them, and timed once. `--unseen` takes other models: those
that nobody had looked at when the rewrites of the recipe fp32 were written.

--openvino allows the provider too. On an Intel CPU its plugin lies beside the plain ONNX Runtime:

    pip install -c constraints.txt -e '.[cpu,build,openvino-plugin]'
    python benchmarks/corpus.py --openvino

On other CPUs the plugin finds no device, and ONNX Runtime's OpenVINO package takes the place of the plain one:

    python -m venv ov
    ov/bin/pip install -c constraints.txt -e '.[build,openvino]'
    ov/bin/pip uninstall -y onnxruntime
    ov/bin/pip install -c constraints.txt --force-reinstall --no-deps onnxruntime-openvino
    ov/bin/python benchmarks/corpus.py --openvino

(The two overwrite one another's files, and olive-ai may bring the plain one: hence the last two.) The last lines say
which bars are met.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import models  # noqa: E402
import peers  # noqa: E402
from judging import BROKEN, HOLDS, OUTSIDE, SLOWER, Judge, Verdict, middle, reference_of, session_of  # noqa: E402

from artifactctl.crew import Crew  # noqa: E402
from artifactctl.project import Limits  # noqa: E402

AUTO, ON_CPU = "auto", "auto on the CPU"  # the second: the fall-back of what was chosen for another provider
BAR_BOUND = 1e-3
BARS = {"cpu": 1.05, "openvino": 1.25}
MOST_LOAD = 1.05  # of the source's: what an interval may reach that is called not slower
SAME = 0.005  # two geometric means that differ by less are one


@dataclass
class Row:
    """Of one model at one bound."""

    name: str
    chosen: str = ""
    provider: str = "cpu"
    built_s: float = 0.0
    itself: str = ""  # how the source leaves the bound at ONNX Runtime's defaults
    verdicts: dict[str, Verdict] = field(default_factory=dict)


def build(source: Path, place: Path, bound: float, asked: argparse.Namespace) -> tuple[Path | None, str]:
    """The artifact that the command writes, or its error. Its cache lives as long as the models of one source."""
    place.mkdir()
    shutil.copy(source, place)
    optimize = {"recipes": [AUTO]} | ({"budget_s": asked.budget} if asked.budget else {})
    optimize |= {"session": True} if asked.session else {}
    entry = {
        "source": {"onnx": source.name},
        "optimize": optimize,
        "equivalence": {"max_abs": bound},
        "providers": ["cpu", "openvino"] if asked.openvino else ["cpu"],
    }
    config = {"schema_version": 1, "models": {source.stem: entry}}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "artifactctl", "--json", "build"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARTIFACTCTL_CACHE": str(place.parent / "cache")}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    said = done.stdout.strip() or json.dumps({"ok": False, "error": {"message": done.stderr[-300:]}})
    report: dict[str, Any] = json.loads(said)
    if not report["ok"]:
        return None, report["error"]["message"]
    artifact = report["data"]["artifacts"][0]
    return place / artifact["path"], artifact["recipe"]


def run(source: Path, rivals: tuple[peers.Peer, ...], asked: argparse.Namespace, kept: Path) -> dict[float, Row]:
    rows = {bound: Row(source.stem) for bound in asked.bounds}
    with tempfile.TemporaryDirectory() as name, Crew(limits=Limits(time_s=600)) as crew:
        place = Path(name)
        (place / "judge").mkdir()
        built = {bound: timed_build(rows[bound], source, place / f"project-{bound:g}", bound, asked) for bound in rows}
        with crew.working_in(place / "judge", source.parent, None):
            judge = Judge(reference_of(source, min(rows), place / "judge", crew), crew, asked.rounds, asked.seconds, {})
            for bound, row in rows.items():
                judge_own(row, built[bound], judge.at(bound), openvino=asked.openvino)
            for peer in rivals:
                made = peer.make(source, place / peer.name, kept)
                for bound, row in rows.items():
                    broken = Verdict(BROKEN, note=made) if isinstance(made, str) else None
                    row.verdicts[peer.name] = broken or judge.at(bound).judge(Path(made))
    return rows


def timed_build(row: Row, source: Path, place: Path, bound: float, asked: argparse.Namespace) -> Path | None:
    began = time.perf_counter()
    artifact, row.chosen = build(source, place, bound, asked)
    row.built_s = time.perf_counter() - began
    return artifact


def judge_own(row: Row, artifact: Path | None, judge: Judge, *, openvino: bool) -> None:
    if artifact is None:
        row.verdicts[AUTO] = Verdict(BROKEN, note=row.chosen)
        return
    metadata = yaml.safe_load((artifact / "metadata.yaml").read_text(encoding="utf-8"))
    session = session_of(metadata["session"])
    row.provider = session.provider
    usual = metadata["reference"]["noise"]["levels"][0]
    row.itself = "" if usual["held"] else str(usual["reason"])
    row.verdicts[AUTO] = judge.judge(artifact / "model_opt.onnx", session, loads=True)
    if openvino:
        plain = row.provider == "cpu"
        row.verdicts[ON_CPU] = row.verdicts[AUTO] if plain else judge.judge(artifact / "model_opt.onnx", loads=True)


def show(row: Row, bound: float, *, verbose: bool) -> None:
    own = row.verdicts[AUTO]
    numbers = f"{own.time!s:<22} load {own.load or 'is its own'!s:<22}" if own.time else own.note
    error = f"{own.error:.1e}" if own.error is not None else "–"
    chosen = f"{row.chosen}@{row.provider}"
    print(
        f"{row.name:<12} {bound:g} {chosen:<22} {own.status:<14} {numbers} error {error:<8} {row.built_s:4.0f} s",
        flush=True,
    )
    if row.itself:
        print(f"    at ONNX Runtime's defaults the source itself leaves the bound: {row.itself}", flush=True)
    if verbose:
        if row.provider != "cpu" and own.load and own.first:
            print(f"    load {own.load.ratio:.1f} and first run {own.first:.1f} times the source's", flush=True)
        for name, found in row.verdicts.items():
            if name != AUTO:
                load = f" load {found.load}" if name == ON_CPU and found.load else ""
                print(f"    {name:<16} {found.status:<18} {found.time or found.note}{load}", flush=True)


def table(rows: list[Row], bound: float) -> dict[str, float]:
    """Prints a line for each optimizer; the geometric means by name."""
    heads = (BROKEN, OUTSIDE, SLOWER)
    print(f"\n{len(rows)} models, bound {bound:g}\n{'optimizer':<16} {'  '.join(heads)}  geometric-mean speed")
    means = {}
    for name in dict.fromkeys(name for row in rows for name in row.verdicts):
        found = [row.verdicts[name] for row in rows if name in row.verdicts]
        means[name] = middle([verdict.speed for verdict in found])
        counts = "  ".join(f"{sum(one.status == head for one in found):>{len(head)}}" for head in heads)
        print(f"{name:<16} {counts}  {means[name]:>20.3f}")
    return means


def missed(rows: list[Row], means: dict[str, float], bound: float, allowed: str) -> list[str]:
    """The bars on speed are of the bound 1e-3; the others hold at every one."""
    found = []
    for row in rows:
        for who in (AUTO, ON_CPU):
            own = row.verdicts.get(who, row.verdicts[AUTO])
            if own.status != HOLDS:
                found.append(f"{row.name}: {who}: {own.status} ({own.note or own.time})")
    if bound == BAR_BOUND and means[AUTO] < BARS[allowed]:
        found.append(f"geometric-mean speed {means[AUTO]:.3f} (bar {BARS[allowed]})")
    for name in means.keys() - {AUTO, ON_CPU}:
        usable = [row for row in rows if row.verdicts[name].status in (HOLDS, SLOWER)]
        ours, theirs = (middle([row.verdicts[who].speed for row in usable]) for who in (AUTO, name))
        if min(ours - theirs, means[AUTO] - means[name]) < -SAME:
            found.append(f"slower than {name}: {ours:.3f} against {theirs:.3f} on the {len(usable)} that it holds")
    for row in rows:
        own = row.verdicts.get(ON_CPU, row.verdicts[AUTO])  # other providers compile: theirs is only shown
        if own.load and own.load.low > 1:
            found.append(f"{row.name}: loads slower than its source, {own.load}")
        elif own.load and own.load.high > MOST_LOAD:
            found.append(f"{row.name}: not proved to load as its source does, {own.load}")
    return [f"at {bound:g}: {line}" for line in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", metavar="A,B", help="[default: all]")
    parser.add_argument("--peers", default="all", help="all, none, or a list such as onnxslim,fp16  [default: all]")
    parser.add_argument("--openvino", action="store_true", help="allow the OpenVINO provider beside the CPU's")
    parser.add_argument("--unseen", action="store_true", help="the models that no rewrite was made with in sight")
    parser.add_argument(
        "--bounds", type=numbers, default=(1e-3, 1e-2), help="equivalence.max_abs  [default: 1e-3,1e-2]"
    )
    parser.add_argument("--budget", type=float, help="optimize.budget_s  [default: the tool's]")
    parser.add_argument("--session", action="store_true", help="optimize.session: true")
    parser.add_argument("--rounds", type=int, default=10, help="of a judgement, at most  [default: 10]")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a judgement  [default: 8]")
    parser.add_argument("--cache", metavar="DIR", help="where models are kept  [default: the user's cache]")
    parser.add_argument("--quiet", action="store_true", help="no line for each peer and model")
    asked = parser.parse_args()
    place = models.place_of(asked.cache)
    sources = models.fetch(models.choose(asked.models, unseen=asked.unseen), place)
    rivals = peers.choose(asked.peers)
    allowed = "cpu and openvino" if asked.openvino else "cpu"
    print(f"providers {allowed}; times and loads are the candidate's divided by the source's", flush=True)
    tables: dict[float, list[Row]] = {bound: [] for bound in asked.bounds}
    for source in sources.values():
        for bound, row in run(source, rivals, asked, place).items():
            tables[bound].append(row)
            show(row, bound, verbose=not asked.quiet)
    lines = []
    for bound, rows in tables.items():
        means = table(rows, bound)
        lines += missed(rows, means, bound, "openvino" if asked.openvino else "cpu")
    left = ["speed"] * (BAR_BOUND not in asked.bounds) + ["that of the peers"] * (set(rivals) != set(peers.PEERS))
    left += ["all models"] * bool(asked.models or asked.unseen)
    met = "every bar is met" + (f", but not judged: {', '.join(left)}" if left else "")
    print("\n" + ("\n".join(f"MISSED {line}" for line in lines) or met))
    return int(bool(lines))


def numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
