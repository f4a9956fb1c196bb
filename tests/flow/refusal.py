"""What every refusal owes its user: a code, a name, what is concerned, what to type next, and nothing half-made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import Finished, clean_environment

NAMES = {
    2: "UsageError",
    3: "ConfigError",
    4: "SourceError",
    5: "OptimizeError",
    6: "NotEquivalent",
    7: "LatencyRegression",
    8: "NotProven",
    9: "NotAvailable",
    10: "ArtifactDamaged",
    11: "Conflict",
    130: "Interrupted",
}


def refused(done: Finished, code: int, *mentions: str) -> dict[str, str]:
    """The error of a command that ended with `code` and names everything in `mentions`."""
    assert done.code == code, f"exit {done.code} instead of {code}\n{done.err}"
    document = done.json
    assert (document["ok"], document["exit_code"]) == (False, code)
    error: dict[str, str] = document["error"]
    assert error["name"] == NAMES[code]
    for text in mentions:
        assert text in error["message"], f"{text!r} is not named in: {error['message']}"
    assert error["hint"].strip()
    assert error["message"] in done.err
    assert error["hint"] in done.err
    assert "Traceback" not in done.err
    assert "@build-" not in error["message"], f"speaks of our scratch copy: {error['message']}"
    return error


def fails(cli: Callable[..., Finished], folder: Path, code: int, *arguments: object, names: tuple[str, ...]) -> Any:
    """Run in `folder`: refused as it should be, and afterwards every file is as it was before."""
    before = contents(folder)
    error = refused(cli(*arguments, "--json", cwd=folder), code, *names)
    assert contents(folder) == before
    return error


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """Every entry below, but for what any build may leave: artifacts/.work with its locks."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in ("artifacts", "artifacts/.work", "artifacts/.work/.gitignore") or name.endswith(".lock"):
            continue
        found[name] = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def versions(folder: Path) -> list[Path]:
    return sorted(folder.glob("artifacts/*/artifact_v*"))


def leftovers(folder: Path) -> list[Path]:
    """Scratch folders of builds that are over."""
    return sorted(folder.glob("**/.work/*@build-*"))


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """The command line as a child that a test can signal; it leads a session of its own, as under a terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "artifactctl", *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], heard: str = "") -> Finished:
    """Wait for a child of `start`; `heard` is what was read of its stderr before."""
    out, err = process.communicate(timeout=300)
    return Finished(process.returncode, out, heard + err)


def hear(process: subprocess.Popen[str], text: str) -> str:
    """Read the child's progress up to the line that has `text`."""
    heard = ""
    assert process.stderr is not None
    for line in process.stderr:
        heard += line
        if text in line:
            return heard
    raise AssertionError(f"the child never said {text!r}:\n{heard}")


def workers(folder: Path) -> list[psutil.Process]:
    """Every process that works below `folder`, whoever its parent is now."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):  # gone meanwhile, or not ours to look at
            continue
    return found


def survivors(folder: Path) -> list[psutil.Process]:
    """Those of `workers` that do not end by themselves."""
    _, alive = psutil.wait_procs(workers(folder), timeout=30)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
