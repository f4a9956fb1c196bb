"""The child processes of one command, started when they are needed and ended together."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from artifactctl.alive import ALIVE
from artifactctl.errors import ArtifactctlError, NotAvailable, SourceError
from artifactctl.process import OperationFailed, Worker, WorkerDied
from artifactctl.project import Limits

LONGEST_MESSAGE = 3000
OLIVE_LOAD_S = 600.0
HOME_PREFIX = "artifactctl-crew-"


class Crew:
    """`runner` runs ONNX Runtime, `timer` times it, `framework` runs the user's torch code, `olive` the passes;
    `flusher` is the runner of sessions that flush denormal numbers.

    One crew serves any number of models, one after the other: Olive is loaded once.
    """

    def __init__(self, *, limits: Limits | None = None, verbose: bool = False) -> None:
        self.limits = limits or Limits()
        self._verbose = verbose
        from filelock import FileLock

        self._home = tempfile.TemporaryDirectory(prefix=HOME_PREFIX, ignore_cleanup_errors=True)
        self._alive = FileLock(Path(self._home.name) / ALIVE)
        self._alive.acquire()
        self.scratch, self._root = Path(self._home.name), Path.cwd()
        self.kept: Path | None = None  # where what is proved different may be left
        self._workers: dict[str, Worker] = {}

    @contextlib.contextmanager
    def working_in(self, scratch: Path, root: Path, kept: Path | None) -> Iterator[None]:
        """For one model: its scratch folder, the folder that its own code is run in, and where evidence may stay."""
        before = self.scratch, self._root, self.kept
        self.scratch, self._root, self.kept = scratch, root, kept
        try:
            yield
        finally:
            self.dismiss("framework")
            self.scratch, self._root, self.kept = before

    def _worker(self, name: str, cwd: Path | None = None) -> Worker:
        if name not in self._workers:
            memory_mb = None if name == "olive" else self.limits.memory_mb  # Olive is not the user's model
            self._workers[name] = Worker(
                name, Path(self._home.name), cwd=cwd, verbose=self._verbose, memory_mb=memory_mb
            )
        return self._workers[name]

    @property
    def framework(self) -> Worker:
        return self._worker("framework", self._root)

    @property
    def olive(self) -> Worker:
        """Loading takes seconds: the first mention starts it, `olive_ready` waits for it."""
        if "olive" not in self._workers:
            self._worker("olive").submit("olive_load")
            self._loading = True
        return self._workers["olive"]

    def olive_ready(self) -> Worker:
        worker = self.olive
        if self._loading:
            self._loading = False
            try:
                worker.result(timeout_s=OLIVE_LOAD_S)  # loading is not the model's work
            except NotAvailable as error:
                raise NotAvailable(f"Olive cannot be used: {error}", hint="pip install 'artifactctl[build]'") from None
        return worker

    def ask(self, name: str, operation: str, **arguments: Any) -> Any:
        """A call to the runner or the framework; a crash or an unforeseen failure is the model's, and a SourceError."""
        # whether denormal numbers are flushed is decided by the first session of a process, for all of them
        if name == "runner" and (arguments.get("settings") or {}).get("flush_denormals"):
            name = "flusher"
        worker = self.framework if name == "framework" else self._worker(name)
        what = "torch" if name == "framework" else "ONNX Runtime"
        try:
            return worker.call(operation, timeout_s=self.limits.time_s, **arguments)
        except WorkerDied as error:
            self.dismiss(name)
            if error.timed_out:
                message = f"the model takes too long: {error.why} ({operation})"
                raise SourceError(message, hint="Give it more with --time-limit S.") from None
            message = f"the model brings {what} down: {error.why} ({operation})"
            hint = f"Try another version of {what}, or export the model anew; '-v' shows what was printed."
            raise SourceError(self.plain(message), hint=hint) from None
        except OperationFailed as error:
            raise SourceError(self.plain(f"the model cannot be used ({operation}): {error}")) from None
        except ArtifactctlError as error:
            raise type(error)(self.plain(str(error)), hint=error.hint) from None

    def plain(self, text: str) -> str:
        """Without the scratch folder, which means nothing to anyone."""
        places = "|".join(re.escape(str(place)) for place in (self.scratch, self._home.name))
        return re.sub(rf"(?:{places})/(?:[^/\s\"']+/)*", "", text)[:LONGEST_MESSAGE]

    def dismiss(self, name: str) -> None:
        """End a worker that died or is not needed any more; the next use starts a new one."""
        if worker := self._workers.pop(name, None):
            worker.close()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._workers):
            self.dismiss(name)
        self._alive.release()
        self._home.cleanup()
