"""The child processes of one build, started when they are needed and ended together."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from artifactctl.process import Worker


class Crew:
    """`runner` runs ONNX Runtime, `framework` the user's torch code, `olive` the passes."""

    def __init__(self, scratch: Path, root: Path, *, verbose: bool = False) -> None:
        self._scratch, self._root, self._verbose = scratch, root, verbose
        self._workers: dict[str, Worker] = {}

    def _worker(self, name: str, cwd: Path | None = None) -> Worker:
        if name not in self._workers:
            self._workers[name] = Worker(name, self._scratch, cwd=cwd, verbose=self._verbose)
        return self._workers[name]

    @property
    def runner(self) -> Worker:
        return self._worker("runner")

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
            worker.result()
        return worker

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
