"""Damaged and hostile model files: each must end in a verdict, in time, and leave nothing behind.

python benchmarks/damaged.py [--count 1000] [--seed 0] [--models DIR] [--only KIND] [--number N] [--keep DIR]

Every file is built in a folder of its own, inside a cage with canaries: the temporary folder, the home folder and the
working directory are in the cage too, so that whatever is written outside of the model's own folder is seen. Every
50th file goes through the command line as well. The makers of the files are in tests/models/damage.py.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from artifactctl import config, errors, folder  # noqa: E402
from artifactctl.crew import Crew  # noqa: E402
from artifactctl.pipeline import build  # noqa: E402
from artifactctl.project import BuildRequest, Latency, Limits  # noqa: E402
from tests.models.damage import CANARY_BYTES, MAKERS, NAME, Case, Outside, plan  # noqa: E402

SMALL = ("mlp", "cnn", "branch", "tokens")
HANG_S = 180  # for a whole build
CLI_EVERY = 50
VERDICTS = {0, *errors.EXIT_CODES}
BAD = ("traceback", "hang", "leftover", "outside", "command line")
COLUMNS = (
    "built",
    *(cls.__name__ for cls in errors.EXIT_CODES.values()),
    "child died",
    "time limit",
    "unforeseen",
    *BAD,
)


class Hung(BaseException):
    """Raised into a build that takes too long; nothing in the package may catch it."""


class WatchedCrew(Crew):
    """Counts the children that had to be replaced during a build."""

    deaths = 0

    def dismiss(self, name: str) -> None:
        self.deaths += name != "framework"
        super().dismiss(name)


@dataclass
class Outcome:
    case: Case
    note: str
    verdict: str = ""
    message: str = ""
    seconds: float = 0.0
    marks: list[str] = field(default_factory=list)  # columns besides the verdict
    faults: list[str] = field(default_factory=list)  # in words, what the bar forbids

    def blame(self, column: str, words: str) -> None:
        self.marks.append(column)
        self.faults.append(f"{column}: {words}")


class Cage:
    """A folder with traps, an environment that points into it, and one crew for all the builds."""

    def __init__(self, place: Path, limits: Limits) -> None:
        self.place, self._limits = place.resolve(), limits
        self.outside = Outside(self.place)
        self._crew: WatchedCrew | None = None
        for name in ("cases", "tmp", "home", "cwd", "secret"):
            (self.place / name).mkdir(parents=True)
        for path in (self.outside.canary, self.place / "cases" / "canary.bin", self.place / "secret" / "canary.bin"):
            path.write_bytes(hashlib.sha256(str(path).encode()).digest() * (CANARY_BYTES // 32))
        os.mkfifo(self.outside.pipe)
        self._canaries = [path for path in self.place.rglob("*") if path.is_file() or path == self.outside.pipe]
        self.sees_reads = self._control_read()
        self._before = self._listing()
        self._read_at = self._age()

    def _age(self) -> dict[Path, int]:
        """Last read before last written: so even `relatime` notes the next read."""
        for path in self._canaries:
            written = path.lstat().st_mtime_ns
            os.utime(path, ns=(written - 10**12, written))
        return {path: path.lstat().st_atime_ns for path in self._canaries}

    def _control_read(self) -> bool:
        self._age()
        before = self.outside.canary.stat().st_atime_ns
        self.outside.canary.read_bytes()
        return self.outside.canary.stat().st_atime_ns != before

    @contextlib.contextmanager
    def entered(self) -> Iterator[Cage]:
        changed = {"TMPDIR": str(self.place / "tmp"), "HOME": str(self.place / "home")}
        previous, directory = {key: os.environ.get(key) for key in changed}, Path.cwd()
        os.environ.update(changed)
        tempfile.tempdir = None
        os.chdir(self.place / "cwd")
        try:
            yield self
        finally:
            self.close_crew()
            os.chdir(directory)
            for key, value in previous.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})
            tempfile.tempdir = None

    @property
    def crew(self) -> WatchedCrew:
        if self._crew is None:
            self._crew = WatchedCrew(limits=self._limits)
        return self._crew

    def close_crew(self) -> None:
        if self._crew is not None:
            self._crew.__exit__(None, None, None)
            self._crew = None

    def run(self, case: Case, *, command_line: bool = False) -> Outcome:
        place = self.place / "cases" / f"{case.number:05d}"
        place.mkdir()
        outcome = Outcome(case, case.write(place, self.outside))
        before = _entries(place)
        self._build(place, outcome)
        self._look(place, before, outcome)
        if command_line:
            shutil.rmtree(place / "artifacts", ignore_errors=True)
            self._command_line(place, outcome)
            self._look(place, before, outcome)
        shutil.rmtree(place)
        return outcome

    def _build(self, place: Path, outcome: Outcome) -> None:
        crew, said = self.crew, [""]
        deaths, started = crew.deaths, time.monotonic()
        try:
            with _alarm(HANG_S):
                project = config.for_file(place / NAME, NAME)
                (model,) = project.models.values()
                model = replace(model, recipes=("fp32",), latency=Latency(budget_s=0.2))
                build(BuildRequest(model, project.root, place / "artifacts"), crew, said.append)
            outcome.verdict = "built"
        except errors.ArtifactctlError as error:
            outcome.verdict, outcome.message = error.name, str(error)
        except Hung:
            outcome.blame("hang", f"no verdict within {HANG_S} s: {said[-1]}")
        except Exception:  # noqa: BLE001 - what is looked for
            outcome.blame("traceback", traceback.format_exc())
        outcome.seconds = time.monotonic() - started
        if crew.deaths > deaths:
            outcome.marks.append("time limit" if "no answer within" in outcome.message else "child died")
        if "the model cannot be used (" in outcome.message:
            outcome.marks.append("unforeseen")
        if not outcome.verdict:  # a request may be under way
            self.close_crew()

    def _command_line(self, place: Path, outcome: Outcome) -> None:
        limits = ["--time-limit", f"{self._limits.time_s:g}", "--memory-limit", str(self._limits.memory_mb)]
        for arguments in (["build", NAME, "--json", "--recipe", "fp32", *limits], ["inspect", NAME, "--json"]):
            command = [sys.executable, "-m", "artifactctl", *arguments]
            try:
                done = subprocess.run(command, cwd=place, capture_output=True, timeout=HANG_S, check=False)
            except subprocess.TimeoutExpired:
                outcome.blame("hang", f"no answer within {HANG_S} s: {arguments[0]}")
                continue
            out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
            if "Traceback" in err:
                outcome.blame("traceback", err)
            try:
                document = json.loads(out)
                right = document["exit_code"] == done.returncode and document["ok"] == (done.returncode == 0)
            except (ValueError, KeyError, TypeError):
                right = False
            if not right or done.returncode not in VERDICTS:
                words = f"{arguments[0]} ended with {done.returncode} and said {out[:500]!r}"
                outcome.blame("command line", f"{words}\n{err[-500:]}")

    def _look(self, place: Path, before: dict[str, object], outcome: Outcome) -> None:
        """Nothing may have changed but for one whole artifact."""
        after = _entries(place)
        if changed := [name for name, entry in before.items() if after.pop(name, None) != entry]:
            outcome.blame("outside", f"the model's own files were changed: {changed}")
        if left := [name for name in after if not _may_stay(name, built=outcome.verdict == "built")]:
            outcome.blame("leftover", f"{left[:5]}")
        for artifact in place.glob("artifacts/*/artifact_v*"):
            if damage := folder.damage(artifact):
                outcome.blame("leftover", f"{artifact.name} is not whole: {damage}")
        if read := [path.name for path in self._canaries if path.lstat().st_atime_ns != self._read_at[path]]:
            outcome.blame("outside", f"was read: {read}")
        found = self._listing()
        if other := sorted(str(path) for path in found.keys() ^ self._before.keys() if self._is_outside(path, place)):
            outcome.blame("outside", f"came or went: {other[:5]}")
        if other := [path.name for path in self._canaries if found.get(path) != self._before[path]]:
            outcome.blame("outside", f"was changed: {other}")
        self._read_at = self._age()  # looking at the content was a read
        self._before |= {path: entry for path, entry in found.items() if self._is_outside(path, place)}

    def _is_outside(self, path: Path, place: Path) -> bool:
        """The temporary folder is in use while the crew is at work; what is left there is looked at in the end."""
        return not path.is_relative_to(place) and not path.is_relative_to(self.place / "tmp")

    def _listing(self) -> dict[Path, tuple[object, ...]]:
        found: dict[Path, tuple[object, ...]] = {}
        for base, folders, files in os.walk(self.place):
            if Path(base) == self.place / "cases":
                folders[:] = []  # the case at hand is looked at more closely
            for name in (*folders, *files):
                path = Path(base, name)
                with contextlib.suppress(FileNotFoundError):  # the crew's own files come and go
                    state = path.lstat()
                    digest = folder.digest(path) if path in self._canaries and path.is_file() else ""
                    found[path] = (state.st_mtime_ns, state.st_size, state.st_mode, digest)
        return found

    def left_behind(self) -> list[str]:
        """After the crew has gone: whatever lies in the temporary folder, and every process that works in the cage."""
        self.close_crew()
        names = [f"tmp/{path.name}" for path in (self.place / "tmp").iterdir()]
        names += [f"home/{path.name}" for path in (self.place / "home").iterdir()]
        names += [f"cwd/{path.name}" for path in (self.place / "cwd").iterdir()]
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):  # gone meanwhile, or not ours to look at
                if process.pid != os.getpid() and Path(process.cwd()).is_relative_to(self.place):
                    names.append(f"process {process.pid}")
        return names


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raises Hung in the main thread. Not by SIGALRM, which belongs to the time limits of tests."""

    def ring(_: int, __: FrameType | None) -> None:
        raise Hung

    previous = signal.signal(signal.SIGUSR1, ring)
    timer = threading.Timer(seconds, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, previous)


def _entries(place: Path) -> dict[str, object]:
    """Every entry below, without following links or opening pipes."""
    found: dict[str, object] = {}
    for base, folders, files in os.walk(place):
        for name in (*folders, *files):
            path = Path(base, name)
            state = path.lstat()
            digest = folder.digest(path) if path.is_file() and not path.is_symlink() and state.st_size < 1 << 26 else ""
            times = None if path.is_dir() else state.st_mtime_ns
            found[path.relative_to(place).as_posix()] = (state.st_mode, times, digest)
    return found


def _may_stay(name: str, *, built: bool) -> bool:
    parts = name.split("/")
    if parts[0] != "artifacts" or len(parts) == 1:
        return parts == ["artifacts"]
    if parts[1] != folder.WORK:
        return built and (len(parts) == 2 or parts[2] == "artifact_v1")
    if len(parts) == 2 or parts[2].endswith("@kept"):  # what was proved different is kept as evidence
        return True
    return len(parts) == 3 and (parts[2] in (".gitignore", "valid-config") or parts[2].endswith(".lock"))


def find_models(place: Path | None) -> list[Path]:
    """The files of `place`, or four small ones and a real one that the tests fetch."""
    if place:
        return sorted(place.glob("*.onnx"))
    cache = Path(os.environ.get("ARTIFACTCTL_TEST_CACHE", ROOT / ".test-cache"))
    models = [ROOT / "tests" / "models" / f"{name}.onnx" for name in SMALL]
    real = cache / "silero_vad.onnx"
    if not real.is_file():
        sys.exit(f"{real} is missing: run 'pytest -k real' once, which fetches it, or give models with --models DIR")
    return [*models, real]


def print_table(outcomes: list[Outcome]) -> None:
    rows = {kind: Counter[str]() for kind in MAKERS}
    for outcome in outcomes:
        rows[outcome.case.kind].update({"files", *outcome.marks, *([outcome.verdict] if outcome.verdict else [])})
    rows["all"] = sum(rows.values(), Counter[str]())
    shown = ("files", *(name for name in COLUMNS if rows["all"][name] or name in BAD))
    print(f"| {'damage':<28} | " + " | ".join(shown) + " |")
    print("| --- |" + " ---: |" * len(shown))
    for kind, row in rows.items():
        if row["files"]:
            print(f"| {kind:<28} | " + " | ".join(f"{row[name] or '':>{len(name)}}" for name in shown) + " |")


def chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    cases = plan(arguments.count, arguments.seed, find_models(arguments.models))
    return [
        case for case in cases
        if (not arguments.only or arguments.only in case.kind)
        and (not arguments.number or case.number in arguments.number)
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=Path, metavar="DIR", help="models to damage instead of the five")
    parser.add_argument("--only", metavar="KIND", help="kinds of damage whose name has this")
    parser.add_argument("--number", type=int, action="append", help="only the file of this number; repeatable")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="only write the damaged files there; build nothing")
    parser.add_argument("--log", type=Path, metavar="FILE", help="one JSON line a file")
    arguments = parser.parse_args()
    cases = chosen_cases(arguments)
    if arguments.keep:
        for case in cases:
            place = arguments.keep / "cases" / f"{case.number:05d}"
            place.mkdir(parents=True)
            print(f"{place / NAME}: {case.kind}, {case.model.name}: {case.write(place, Outside(arguments.keep))}")
        return 0
    log = arguments.log.open("w", encoding="utf-8") if arguments.log else contextlib.nullcontext(None)
    outcomes, started = [], time.monotonic()
    with log as lines, tempfile.TemporaryDirectory() as place:
        cage = Cage(Path(place), Limits(time_s=60, memory_mb=4096))
        if not cage.sees_reads:
            print("this file system does not note reads: a file read outside would not be seen")
        with cage.entered():
            for case in cases:
                outcome = cage.run(case, command_line=case.number % CLI_EVERY == 0)
                outcomes.append(outcome)
                for fault in outcome.faults:
                    print(f"{case.number} {case.kind} ({case.model.name}, {outcome.note}): {fault}", flush=True)
                if lines:
                    record = {"number": case.number, "kind": case.kind, "model": case.model.stem, "note": outcome.note}
                    record |= {"verdict": outcome.verdict, "seconds": round(outcome.seconds, 2), "marks": outcome.marks}
                    lines.write(json.dumps(record | {"message": outcome.message[:2000]}) + "\n")
                    lines.flush()
            left = cage.left_behind()
    print_table(outcomes)
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    print(f"\n{len(outcomes)} files in {(time.monotonic() - started) / 60:.0f} minutes; the slowest took")
    print(f"{slowest.seconds:.0f} s ({slowest.case.kind}, {slowest.note}); left behind afterwards: {left or 'nothing'}")
    return 1 if left or any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
