"""The backend suite of the `onnx` package through this tool: about 2,000 models with known inputs and outputs.

python benchmarks/onnx_suite.py [--suite node] [--only REGEX] [--every N] [--jobs 2] [--json FILE]

Each model is verified against the outputs it ships with, and built with the recipe fp32. Every one must end in a
verdict: equivalent, different with a cause, or a refusal that names its reason. What ends otherwise (an exception
that nobody foresaw, or no answer in time) is listed, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from artifactctl import config, inspection  # noqa: E402
from artifactctl.crew import Crew  # noqa: E402
from artifactctl.errors import ArtifactctlError, NotEquivalent, SourceError  # noqa: E402
from artifactctl.pipeline import build  # noqa: E402
from artifactctl.project import BuildRequest, Equivalence, Latency, Limits  # noqa: E402
from artifactctl.records import EquivalenceReport  # noqa: E402
from artifactctl.steps.export import session_for  # noqa: E402
from artifactctl.steps.reverify import Request, verify_artifact  # noqa: E402
from artifactctl.steps.verify import bounds_of  # noqa: E402
from tests.models.suite import SUITES, Case, cases  # noqa: E402

LIMITS = Limits(time_s=120)
NO_VERDICT = ("unforeseen", "no answer", "traceback")

# what an error's message says -> the verdict; the first that matches
VERDICTS = (
    (r"no answer within", "no answer"),
    (r"brings ONNX Runtime down", "crash"),
    (r"the model cannot be used \(", "unforeseen"),  # an exception of the child that is not one of ours
    (r"ONNX Runtime cannot (load|run)", "cannot run"),
    (r"refuses every input", "refuses inputs"),
    (r"does not agree with itself", "not steady"),
)


@dataclass(frozen=True)
class Verdict:
    kind: str
    cause: str = ""

    @property
    def known(self) -> bool:
        return self.kind not in NO_VERDICT


@dataclass(frozen=True)
class Outcome:
    suite: str
    name: str
    verify: Verdict
    build: Verdict
    seconds: float


def judge(case: Case, crew: Crew) -> Outcome:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path, samples = case.write(folder)
        verified = _verdict(lambda: _verify(path, samples, crew))
        built = _verdict(lambda: _build(path, folder / "artifacts", crew))
    return Outcome(case.suite, case.name, verified, built, time.monotonic() - started)


def _verdict(ask: Callable[[], Verdict]) -> Verdict:
    try:
        return ask()
    except ArtifactctlError as error:
        message = f"{error.name}: {_first_line(error)}"
        for pattern, kind in VERDICTS:
            if re.search(pattern, str(error)):
                return Verdict(kind, message)
        return Verdict({SourceError: "refused", NotEquivalent: "different"}.get(type(error), error.name), message)
    except Exception:  # noqa: BLE001 - to find these is what this is for
        return Verdict("traceback", traceback.format_exc())


def _verify(path: Path, samples: Path, crew: Crew) -> Verdict:
    """The model against the outputs it ships with, by the proof that every build goes through."""
    found = crew.ask(
        "runner", "prove", path=str(path), folder=str(samples), settings=asdict(session_for("cpu", crew)),
        bounds=bounds_of(Equivalence()), how={"batched": False, "states": [], "batch_axes": {}, "split": []},
    )  # fmt: skip
    report = EquivalenceReport.from_dict(found)
    if report.failure:
        return Verdict("cannot run", report.failure)
    return Verdict("equivalent") if report.passed else Verdict("different", str(report.reason))


def _build(path: Path, artifacts: Path, crew: Crew) -> Verdict:
    """A version, verified once more from its folder; the cause is why it is the source, when it is."""
    project = config.for_file(path, path.name)
    model = replace(next(iter(project.models.values())), recipes=("fp32",), latency=Latency(budget_s=1.0))
    made = build(BuildRequest(model, project.root, artifacts), crew, lambda _: None)
    found = inspection.whole_artifact(made.path)
    again = verify_artifact(made.path, found, Request(), crew)
    if not again.passed:
        return Verdict("unforeseen", f"what was built does not verify: {again.reason}")
    recipe = found["recipe"]
    why = next(entry["reason"] for entry in recipe["candidates"] if entry["recipe"] == "fp32")
    return Verdict(f"built: {recipe['name']}", "" if recipe["name"] == "fp32" else why)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def run_all(names: list[tuple[str, str]], jobs: int) -> Iterator[Outcome]:
    """Processes with one crew each; what a process that dies has not judged is without a verdict."""
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=_work, args=(names[start::jobs], done)) for start in range(jobs)]
    for worker in workers:
        worker.start()
    waiting, last = set(names), False
    while waiting and not last:
        last = not any(worker.is_alive() for worker in workers)  # asked before the queue is found empty
        try:
            while outcome := done.get(timeout=1):
                waiting.discard((outcome.suite, outcome.name))
                yield outcome
        except queue.Empty:
            continue
    for worker in workers:
        worker.join()
    lost = Verdict("traceback", "the benchmark's own process died")
    yield from (Outcome(suite, name, lost, lost, 0.0) for suite, name in sorted(waiting))


def _work(names: list[tuple[str, str]], done: Any) -> None:
    known: dict[str, dict[str, Case]] = {}
    with Crew(limits=LIMITS) as crew:
        for suite, name in names:
            if suite not in known:
                known[suite] = cases(suite)
            done.put(judge(known[suite][name], crew))


def table(outcomes: list[Outcome]) -> str:
    lines = []
    for title, verdict in (("verify", lambda o: o.verify.kind), ("build", lambda o: o.build.kind)):
        kinds = [kind for kind, _ in Counter(map(verdict, outcomes)).most_common()]
        lines.append(f"{title:<18} {'models':>7} " + " ".join(f"{kind:>14}" for kind in kinds))
        for suite in [*SUITES, "all"]:
            chosen = [outcome for outcome in outcomes if suite in (outcome.suite, "all")]
            counts = Counter(map(verdict, chosen))
            if chosen:
                cells = " ".join(f"{counts[kind] or '–':>14}" for kind in kinds)
                lines.append(f"{suite:<18} {len(chosen):>7} {cells}")
        lines.append("")
    pairs = Counter((outcome.verify.kind, outcome.build.kind) for outcome in outcomes)
    lines.append(f"{'verify':<16} {'build':<16} {'models':>7}")
    lines += [f"{one:<16} {other:<16} {count:>7}" for (one, other), count in pairs.most_common()]
    return "\n".join(lines)


def grouped(outcomes: list[Outcome], part: str, kinds: tuple[str, ...] | None = None) -> str:
    """Causes with their numbers and names taken out, most frequent first, each with the models it stands for."""
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        verdict: Verdict = getattr(outcome, part)
        if verdict.cause and (kinds is None or verdict.kind in kinds):
            groups.setdefault((verdict.kind, plain(verdict.cause)), []).append(outcome.name)
    lines = []
    for (kind, cause), names in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[1]))):
        shown = ", ".join(names[:6]) + (f", and {len(names) - 6} more" if len(names) > 6 else "")
        lines += [f"{len(names):>5}  {kind}: {cause}", f"       {shown}"]
    return "\n".join(lines)


def plain(cause: str) -> str:
    """Without names, numbers and places in ONNX Runtime's source, so that equal causes are equal texts."""
    text = re.sub(r"\S+\.onnx failed:", "failed: ", cause)
    text = re.sub(r"\S+\.(cc|h|hpp):\d+ ", "", text)
    text = re.sub(r"(\w+ )?onnxruntime::\S+\(.*?\)( const)?( \[with [^\]]*\])? ", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    text = re.sub(r"\[[-\d, ]*\]|\{[-\d, ]*\}", "[…]", text)
    text = re.sub(r"Name:\S+|name \S+", "name …", text)
    return re.sub(r"(?<![\w.])-?\d+(\.\d+)?(e[+-]?\d+)?(?!\w)", "N", text)[:300]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--only", metavar="REGEX", default="")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    every = [(suite, name) for suite in arguments.suite or SUITES for name in cases(suite)]
    names = [item for item in every if re.search(arguments.only, item[1])][:: arguments.every]
    started, outcomes = time.monotonic(), []
    for outcome in run_all(names, max(1, min(arguments.jobs, len(names)))):
        outcomes.append(outcome)
        if sys.stderr.isatty() or not len(outcomes) % 50 or len(outcomes) == len(names):
            print(f"{len(outcomes)} of {len(names)}: {outcome.name}", file=sys.stderr, flush=True)
            if arguments.json:  # again and again: what is known survives an interruption
                arguments.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    outcomes.sort(key=lambda outcome: (SUITES.index(outcome.suite), outcome.name))
    print(table(outcomes))
    print(f"\nverify, causes:\n{grouped(outcomes, 'verify')}")
    print(f"\nbuild, causes:\n{grouped(outcomes, 'build')}")
    slowest = sorted(outcomes, key=lambda outcome: -outcome.seconds)[:3]
    shown = ", ".join(f"{outcome.name} {outcome.seconds:.0f} s" for outcome in slowest)
    print(f"\n{len(outcomes)} models in {time.monotonic() - started:.0f} s; the slowest: {shown}")
    lost = [outcome for outcome in outcomes if not (outcome.verify.known and outcome.build.known)]
    print(f"without a verdict: {len(lost)}")
    for outcome in lost:
        for part in (outcome.verify, outcome.build):
            if not part.known:
                print(f"  {outcome.suite} {outcome.name}: {part.kind}: {part.cause}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
