"""One step of an action as a child process, and what it leaves for GitHub."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT, clean_environment


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    outputs: str
    page: str

    def obeyed(self) -> list[str]:
        """The lines that GitHub's runner would take for commands, on both streams, without our own switch."""
        found = []
        for stream in (self.out, self.err):
            stopped = None
            for line in stream.splitlines():
                command = re.match(r"\s*::([^ :]+)[^:]*::(.*)", line)
                if stopped:
                    stopped = None if command and command[1] == stopped else stopped
                elif command and command[1] == "stop-commands":
                    stopped = command[2]
                elif command or "##[" in line:
                    found.append(line)
            assert not stopped
        return found


def run(step: str, cwd: Path, env: Mapping[str, str] | None = None, **inputs: object) -> Ran:
    """As an action starts it: installed code, inputs in the environment."""
    cwd.mkdir(exist_ok=True)
    files = {name: cwd.parent / f"{name}.txt" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "artifactctl.ci", step],
        cwd=cwd,
        env=clean_environment(
            PYTHONPATH=str(ROOT),
            GITHUB_ACTIONS="true",
            **{name: str(file) for name, file in files.items()},
            **{f"INPUT_{name.upper()}": str(value) for name, value in inputs.items()},
            **(env or {}),
        ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, *(file.read_text() for file in files.values()))
