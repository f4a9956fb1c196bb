"""The only starter of child processes: a worker that runs one operation at a time on the heavy side, and programs.

A native crash, a hang or a stray print in ONNX Runtime, torch or Olive stays in the child. Requests and answers
are JSON lines; the child's own stdout and stderr go to a log. The child dies with its parent, however that dies.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from artifactctl import errors

# Olive sends a heartbeat at import and waits for the network at exit unless it believes to be in CI.
_QUIET = {
    "CI": "1",
    "OLIVE_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}

# Another program asks nobody, reports to nobody, and hands out contents where a CI job asked for pointers only.
_UNATTENDED = {"CI": "1", "DVC_NO_ANALYTICS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "0"}
NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Ended:
    """What another program left: its exit code (127: there is no such program), stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def why(self) -> str:
        """Its last words, for a message."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        wrong = [line for line in lines if line.lower().startswith(("error", "fatal"))]
        return (wrong or lines or [f"it ended with exit code {self.code}"])[-1]


def run(
    words: Sequence[str | Path],
    cwd: Path,
    *,
    given: bytes = b"",
    output: Path | None = None,
    timeout_s: float = 3600.0,
) -> Ended:
    """Another program (git-lfs, dvc) to its end, without a shell; `output`: a file for a large stdout."""
    with output.open("wb") if output else contextlib.nullcontext(subprocess.PIPE) as sink:
        try:
            done = subprocess.run(
                [str(word) for word in words],
                cwd=cwd,
                env={**os.environ, **_UNATTENDED},
                input=given,
                stdout=sink,
                stderr=subprocess.PIPE,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError:
            return Ended(NOT_FOUND, "", f"{words[0]} is not installed")
        except subprocess.TimeoutExpired:
            return Ended(-9, "", f"{words[0]} did not end within {timeout_s:g} s")
    return Ended(done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace"))


class WorkerDied(Exception):
    """The child ended without an answer: a native crash, a kill, or no answer in time."""

    def __init__(self, operation: str, why: str, log: str, *, timed_out: bool = False) -> None:
        super().__init__(f"{why} during {operation}")
        self.operation, self.why, self.log, self.timed_out = operation, why, log, timed_out


class OperationFailed(Exception):
    """The child answered with an exception that is not one of ours; its text is for the user."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind, self.trace = kind, trace


class Worker:
    """A child process for heavy work; started at once, so that it loads while the caller goes on."""

    def __init__(
        self,
        name: str,
        scratch: Path,
        *,
        cwd: Path | None = None,
        verbose: bool = False,
        memory_mb: int | None = None,
    ) -> None:
        self.name = name
        folder = scratch / f"worker-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        self._log_path = folder / "log.txt"
        self._pending: str | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "artifactctl.backends.worker", str(memory_mb or "")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if verbose else log,
                cwd=cwd or folder,
                env={**os.environ, **_QUIET},
                start_new_session=True,
                encoding="utf-8",
            )
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._answers.put(line)
        self._answers.put(None)

    def submit(self, operation: str, **arguments: Any) -> None:
        """Send a request without waiting; `result` takes its answer."""
        assert self._pending is None, f"{self._pending} is still under way"
        self._pending = operation
        with contextlib.suppress(BrokenPipeError):  # the answer, or its absence, tells what happened
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"operation": operation, "arguments": arguments}) + "\n")
            self._process.stdin.flush()

    def result(self, *, timeout_s: float | None = None) -> Any:
        operation, self._pending = self._pending or "", None
        try:
            line = self._answers.get(timeout=None if timeout_s == math.inf else timeout_s)
        except queue.Empty:
            self.close()
            why = f"no answer within {timeout_s:g} s"
            raise WorkerDied(operation, why, self._log(), timed_out=True) from None
        if line is None or not line.endswith("\n"):  # nothing, or half an answer
            self._answers.put(None)  # it stays dead
            raise WorkerDied(operation, _cause(self._process.wait()), self._log())
        return _unpack(json.loads(line))

    def call(self, operation: str, *, timeout_s: float | None = None, **arguments: Any) -> Any:
        self.submit(operation, **arguments)
        return self.result(timeout_s=timeout_s)

    def _log(self) -> str:
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-15:])

    def close(self) -> None:
        """End the child and whatever it started: the group outlives its leader."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cause(code: int) -> str:
    if code < 0:
        try:
            return f"crashed with {signal.Signals(-code).name}"
        except ValueError:
            return f"crashed with signal {-code}"
    return f"ended with exit code {code}"


def _unpack(answer: Mapping[str, Any]) -> Any:
    if "result" in answer:
        return answer["result"]
    error = answer["error"]
    known = {cls.__name__: cls for cls in errors.EXIT_CODES.values()}.get(error["kind"])
    if known is not None:
        raise known(error["message"], hint=error["hint"])
    raise OperationFailed(error["kind"], error["message"], error["trace"])
