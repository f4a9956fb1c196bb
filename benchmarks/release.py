"""Kills and races of a release: python benchmarks/release.py [--kills 100] [--races 0] [--seed 0] [--late 0.5]

A real repository with one built artifact and a bare remote are made once. Each trial copies both, starts
`artifactctl release mlp --push`, kills it with SIGKILL at a random moment (every other time its whole process group),
asks `doctor` what is left, mends what can be removed, and runs the release again. It must end with the same tag, tree,
package and trailers as a run that nobody killed, and leave nothing behind. The moments are uniform over the time of a
whole run; of a share of --late trials they are uniform over the part after the package, where git is at work.
A race is two clones that release the same artifact at once. Exits with 1 when a trial did not converge.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAG, NAME = "mlp/artifact_v1", "mlp-artifact_v1"
STEPS = ("preflight", "packaging", "packaged", "committed", "tagged", "dist written", "pushed", "ended by itself")
OLD = (1_000_000_000, 1_000_000_000)


@dataclass
class Trial:
    number: int
    after_s: float
    late: bool
    group: bool
    killed_in: str = ""
    named: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What must be the same however often it was killed."""

    tree: str
    parents: str
    trailers: str
    package: str
    dist: tuple[str, ...]


def git(place: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"git failed: {done.stderr.strip()}"


def environment(place: Path) -> dict[str, str]:
    """With a folder for temporary files that can be looked into."""
    (place / "tmp").mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ARTIFACTCTL_", "GITHUB_"))}
    return kept | {"PYTHONPATH": str(ROOT), "TMPDIR": str(place / "tmp")}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "artifactctl", *words]


def run(place: Path, *words: str, project: str = "project") -> tuple[int, dict[str, object], str]:
    """Exit code, the data of the JSON document, and the error in words."""
    done = subprocess.run(
        command(*words, "--json"), cwd=place / project, env=environment(place), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return done.returncode, {}, done.stderr[-500:]
    error = document["error"] or {}
    return done.returncode, document["data"], " ".join(str(error.get("message", "")).split())


def make(place: Path) -> None:
    project = place / "project"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", place / "remote.git"], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    shutil.copy(ROOT / "tests" / "models" / "mlp.onnx", project)
    for words in (
        ("config", "user.name", "Tester"), ("config", "user.email", "tester@example.com"),
        ("remote", "add", "origin", "../remote.git"), ("add", "."), ("commit", "-qm", "the model"),
        ("push", "-q", "-u", "origin", "main"),
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=project, check=True)
    code, _, said = run(place, "build", "mlp.onnx", "--recipe", "fp32")
    if code != 0:
        raise SystemExit(f"the artifact cannot be built: {said}")


def copied(template: Path, place: Path) -> Path:
    place.mkdir()
    for name in ("project", "remote.git"):
        shutil.copytree(template / name, place / name, symlinks=True)
    return place


def outcome_of(place: Path) -> Outcome:
    project = place / "project"
    message = git(project, "tag", "-l", "--format=%(contents)", TAG)
    sums = project / "dist" / f"{NAME}.SHA256SUMS"
    listed = sums.read_text().splitlines() if sums.is_file() else []
    package = next((line.split()[0] for line in listed if line.endswith(f"  {NAME}.zip")), "none")
    names = tuple(sorted(path.name for path in (project / "dist").glob("*")))
    trailers = "\n".join(line for line in message.splitlines() if line.startswith("Artifact-"))
    return Outcome(
        git(project, "rev-parse", f"{TAG}^{{tree}}"), git(project, "rev-list", "--count", TAG), trailers, package, names
    )


def where(place: Path) -> str:
    """How far it had come, from what is there."""
    project, dist = place / "project", place / "project" / "dist"
    if TAG in git(place / "remote.git", "tag"):
        return "pushed"
    if (dist / f"{NAME}.SHA256SUMS").exists():
        return "dist written"
    if TAG in git(project, "tag"):
        return "tagged"
    if git(project, "rev-list", "--count", "HEAD") != "1":
        return "committed"
    if (dist / f"{NAME}.zip").exists():
        return "packaged"
    return "packaging" if any((project / "artifacts/.work").glob("*@build-*")) else "preflight"


def kill(trial: Trial, place: Path) -> None:
    """Starts it, waits for the moment, kills it, and waits for what outlives it."""
    zip_file = place / "project" / "dist" / f"{NAME}.zip"
    process = subprocess.Popen(
        command("release", "mlp", "--push", "-q"), cwd=place / "project", env=environment(place),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    while trial.late and process.poll() is None and not zip_file.exists():
        time.sleep(0.002)
    time.sleep(trial.after_s)
    ended = process.poll() is not None
    if not ended:
        os.killpg(process.pid, signal.SIGKILL) if trial.group else process.kill()
    process.wait()
    trial.killed_in = "ended by itself" if ended else where(place)


def below(place: Path, *patterns: str) -> Iterator[Path]:
    """Files and folders by their names; what a git that outlived its parent removes meanwhile is passed over."""
    for base, folders, files in os.walk(place):
        for name in (*folders, *files):
            if any(fnmatch(name, pattern) for pattern in patterns):
                yield Path(base, name)


def left_behind(place: Path) -> list[str]:
    project = place / "project"
    found = [*(project / "dist").glob(".*.part"), *below(project / "artifacts", "*.part")]
    found += [*(project / "baselines").glob("*.part"), *(project / "baselines").glob(".*.part")]
    found += [*(project / "artifacts/.work").glob("*@build-*"), *(place / "tmp").glob("*")]
    for home in (project / ".git", place / "remote.git"):
        found += [*below(home, "*.lock", "tmp_objdir*"), *home.glob("artifactctl*")]
    return sorted(path.relative_to(place).as_posix() for path in found)


def check(trial: Trial, place: Path, expected: Outcome) -> None:
    project = place / "project"
    code, _, said = run(place, "release", "mlp", "--push")
    if code != 0:
        trial.failures.append(f"the second run ended with {code}: {said}")
        return
    found = outcome_of(place)
    for key in Outcome.__dataclass_fields__:
        if getattr(found, key) != getattr(expected, key):
            trial.failures.append(f"{key} is {getattr(found, key)!r}, not {getattr(expected, key)!r}")
    for ref in (f"refs/tags/{TAG}", "refs/heads/main"):
        if git(place / "remote.git", "rev-parse", ref) != git(project, "rev-parse", ref):
            trial.failures.append(f"the remote has another {ref}")
    for home in (project, place / "remote.git"):
        if "git failed" in git(home, "fsck", "--strict", "--no-dangling"):
            trial.failures.append(f"fsck of {home.name}: {git(home, 'fsck')}")
    if status := git(project, "status", "--porcelain"):
        trial.failures.append(f"git status says {status!r}")
    if left := left_behind(place):
        trial.failures.append(f"left behind: {', '.join(left)}")
    _, data, said = run(place, "doctor")
    if said or data.get("leftovers"):
        trial.failures.append(f"doctor still names {data.get('leftovers') or said}")


def one(trial: Trial, template: Path, home: Path, expected: Outcome, *, keep: bool) -> Trial:
    place = copied(template, home / f"trial{trial.number:03d}")
    kill(trial, place)
    for path in below(place, "*.lock", "tmp_objdir-*", "artifactctl-*.index"):
        with contextlib.suppress(FileNotFoundError):  # a git that outlived its parent is done with it
            os.utime(path, OLD)  # doctor takes what is younger for somebody's work
    before = left_behind(place)
    _, data, said = run(place, "doctor")
    found: list[dict[str, object]] = data.get("leftovers", [])  # type: ignore[assignment]
    trial.named = [str(item["what"]) for item in found]
    if said:
        trial.failures.append(f"doctor failed: {said}")
    if any(item["path"] for item in found):
        _, data, _ = run(place, "doctor", "--mend")
        mended: list[dict[str, object]] = data.get("leftovers", [])  # type: ignore[assignment]
        trial.mended = [str(item["path"]) for item in mended if item["removed"]]
    unnamed = [name for name in before if name in left_behind(place)]
    check(trial, place, expected)
    trial.failures += [f"doctor did not mend {name}" for name in unnamed if name in left_behind(place)]
    if not (keep and trial.failures):
        shutil.rmtree(place)
    return trial


def show(trials: list[Trial]) -> None:
    print(f"{'killed in':18} {'trials':>7} {'group':>7} {'converged':>10} {'named':>7} {'mended':>7}")
    for step in STEPS:
        own = [trial for trial in trials if trial.killed_in == step]
        if own:
            good = sum(not trial.failures for trial in own)
            groups, named = sum(trial.group for trial in own), sum(bool(trial.named) for trial in own)
            print(f"{step:18} {len(own):7} {groups:7} {good:10} {named:7} {sum(bool(t.mended) for t in own):7}")
    good = sum(not trial.failures for trial in trials)
    print(f"{'all':18} {len(trials):7} {sum(trial.group for trial in trials):7} {good:10}")
    kinds = Counter(" ".join(text.split("/")[-1].split("-")[0].split()) for trial in trials for text in trial.named)
    for kind, count in kinds.most_common():
        print(f"  doctor named {count} × {kind}")
    for trial in trials:
        for text in trial.failures:
            how = "group" if trial.group else "process"
            print(f"FAILED trial {trial.number} ({how} killed {trial.after_s:.2f} s in, {trial.killed_in}): {text}")


def race(number: int, template: Path, home: Path) -> list[str]:
    """Two clones at once; what went wrong, in words."""
    place = copied(template, home / f"race{number:03d}")
    shutil.copytree(place / "project", place / "other", symlinks=True)
    names = ("project", "other")
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda name: run(place, "release", "mlp", "--push", project=name), names))
    said = [(code, data.get("status")) for code, data, _ in ended]
    failures = []
    if sum(status == "released" for _, status in said) != 1:
        failures.append(f"not exactly one released: {said}")
    for name, (code, data, words) in zip(names, ended, strict=True):
        if data.get("status") == "released":
            continue
        if (code, data.get("status")) != (0, "unchanged") and code != 11:
            failures.append(f"the other one ended with {code}: {words}")
        pulled = git(place / name, "pull", "-q", "--rebase", "origin", "main")
        again = run(place, "release", "mlp", "--push", project=name)
        if pulled.startswith("git failed") or (again[0], again[1].get("status")) != (0, "unchanged"):
            failures.append(f"after a pull ({pulled}) it ended with {again[0]} {again[1].get('status')}: {again[2]}")
    ids = {git(place / name, "rev-parse", TAG, "HEAD") for name in names}
    ids.add(git(place / "remote.git", "rev-parse", TAG, "main"))
    failures += [f"the ids differ: {sorted(ids)}"] if len(ids) != 1 else []
    shutil.rmtree(place)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--races", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--late", type=float, default=0.5, help="share of kills after the package  [default: 0.5]")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--keep", metavar="DIR", help="work there, and keep what did not converge")
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(asked.keep or scratch).resolve()
        template = home / "template"
        (template).mkdir(parents=True)
        make(template)
        plain = copied(template, home / "plain")
        started = time.perf_counter()
        watched = Trial(0, 0.0, late=True, group=False)
        process = subprocess.Popen(command("release", "mlp", "--push", "-q"), cwd=plain / "project",
                                   env=environment(plain))  # fmt: skip
        while process.poll() is None and not (plain / "project/dist" / f"{NAME}.zip").exists():
            time.sleep(0.002)
        packaged_s = time.perf_counter() - started
        code, whole_s = process.wait(), time.perf_counter() - started
        if code != 0:
            raise SystemExit("the release cannot be made")
        expected = outcome_of(plain)
        check(watched, plain, expected)
        print(f"a run that nobody kills takes {whole_s:.1f} s, the part after the package {whole_s - packaged_s:.1f} s")
        if watched.failures:
            raise SystemExit(f"a run that nobody kills does not converge: {watched.failures}")
        trials = []
        for number in range(1, asked.kills + 1):
            late = dice.random() < asked.late
            after_s = dice.uniform(0, whole_s - packaged_s if late else whole_s)
            trials.append(Trial(number, after_s, late, group=number % 2 == 0))
        with ThreadPoolExecutor(asked.at_once) as pool:
            done = []
            for trial in pool.map(lambda trial: one(trial, template, home, expected, keep=bool(asked.keep)), trials):
                done.append(trial)
                how = "group" if trial.group else "process"
                state = "; ".join(trial.failures) or "converged"
                print(f"{trial.number:4} {how:8} {trial.killed_in:15} {state}", file=sys.stderr, flush=True)
        show(done)
        bad = [trial for trial in done if trial.failures]
        for number in range(1, asked.races + 1):
            failures = race(number, template, home)
            print(f"race {number:3}: {'; '.join(failures) or 'one won, the other found it released'}", flush=True)
            bad += [watched] if failures else []
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
