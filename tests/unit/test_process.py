"""Workers against the real child process."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from artifactctl.errors import SourceError
from artifactctl.process import NOT_FOUND, Ended, OperationFailed, Worker, WorkerDied, run
from tests.conftest import MODELS, clean_environment

Start = Callable[[], tuple[Worker, psutil.Process]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a worker, and gives its process beside it."""
    workers: list[Worker] = []

    def begin() -> tuple[Worker, psutil.Process]:
        before = set(psutil.Process().children())
        workers.append(Worker(f"w{len(workers)}", tmp_path))
        [child] = set(psutil.Process().children()) - before
        return workers[-1], child

    yield begin
    for worker in workers:
        worker.close()


@pytest.fixture
def endless(tmp_path: Path) -> str:
    """A file that is never read to its end: opening it waits for a writer that does not come."""
    os.mkfifo(tmp_path / "endless.onnx")
    return str(tmp_path / "endless.onnx")


def test_answers_and_errors_of_one_worker(start: Start, tmp_path: Path) -> None:
    worker, child = start()
    assert worker.call("inspect", path=str(MODELS / "mlp.onnx"))["precision"] == "fp32"
    with pytest.raises(OperationFailed, match="no_such_operation") as unknown:
        worker.call("no_such_operation")
    assert unknown.value.kind == "KeyError"
    assert "Traceback" in unknown.value.trace
    with pytest.raises(OperationFailed, match=r"TypeError: .*colour"):
        worker.call("inspect", colour="red")
    with pytest.raises(SourceError, match=r"nothing.onnx cannot be read: No such file") as missing:
        worker.call("inspect", path=str(tmp_path / "nothing.onnx"))
    assert missing.value.hint == "Check the path; paths in artifactctl.yaml are relative to its folder."
    assert worker.call("inspect", path=str(MODELS / "cnn.onnx"))["inputs"][0]["name"] == "image"
    assert child.is_running()


def test_a_request_is_answered_later(start: Start) -> None:
    worker, _ = start()
    worker.submit("inspect", path=str(MODELS / "mlp.onnx"))
    assert worker.result()["ir_version"] == 10


def test_a_worker_may_have_all_the_time_there_is(start: Start) -> None:
    worker, _ = start()
    assert worker.call("inspect", path=str(MODELS / "mlp.onnx"), timeout_s=math.inf)["ir_version"] == 10


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_killed_child_is_named_by_its_signal(start: Start, endless: str, number: signal.Signals) -> None:
    worker, child = start()
    worker.submit("inspect", path=endless)
    child.send_signal(number)
    with pytest.raises(WorkerDied) as died:
        worker.result(timeout_s=60)
    assert died.value.why == f"crashed with {number.name}"
    assert died.value.operation == "inspect"


def test_a_dead_worker_does_not_keep_anyone_waiting(start: Start) -> None:
    worker, child = start()
    child.kill()
    for _ in range(2):
        with pytest.raises(WorkerDied, match="SIGKILL during inspect"):
            worker.call("inspect", path="x", timeout_s=5)


def test_no_answer_in_time_ends_the_child(start: Start, endless: str) -> None:
    worker, child = start()
    with pytest.raises(WorkerDied, match=r"no answer within 0\.1 s during inspect"):
        worker.call("inspect", path=endless, timeout_s=0.1)
    assert not child.is_running()


def test_the_log_comes_with_the_death(start: Start, endless: str) -> None:
    worker, _ = start()
    with pytest.raises(OperationFailed):
        worker.call("no_such_operation")
    with pytest.raises(WorkerDied) as died:
        worker.call("inspect", path=endless, timeout_s=0.1)
    assert "KeyError: 'no_such_operation'" in died.value.log


def test_close_ends_the_process_even_while_it_works(start: Start, endless: str) -> None:
    worker, child = start()
    worker.submit("inspect", path=endless)
    worker.close()
    assert not child.is_running()
    worker.close()


def test_leaving_the_block_ends_the_process(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with Worker("w", tmp_path):
        [child] = set(psutil.Process().children()) - before
    assert not child.is_running()


PARENT = """
import os, signal, sys
from pathlib import Path
from artifactctl.process import Worker
worker = Worker("w", Path(sys.argv[1]), verbose=True)
worker.call("inspect", path=sys.argv[2])
if sys.argv[3]:
    worker.submit("inspect", path=sys.argv[3])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_the_child_dies_with_a_killed_parent(tmp_path: Path, endless: str, busy: bool) -> None:
    """The child holds our end of the parent's stderr open: this returns only once both are gone."""
    arguments = [str(tmp_path), str(MODELS / "mlp.onnx"), endless if busy else ""]
    done = subprocess.run(
        [sys.executable, "-c", PARENT, *arguments],
        env=clean_environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def test_another_program_to_its_end(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['DVC_NO_ANALYTICS'], os.getcwd(), sys.stdin.read()); sys.exit(3)"
    done = run([sys.executable, "-c", code], tmp_path, given=b"hello")
    assert (done.code, done.out, done.err) == (3, f"1 {tmp_path} hello\n", "")
    into = tmp_path / "out"
    assert run([sys.executable, "-c", "print('x' * 9)"], tmp_path, output=into) == Ended(0, "", "")
    assert into.read_text() == "x" * 9 + "\n"


def test_a_program_that_is_not_there_or_does_not_end(tmp_path: Path, endless: str) -> None:
    assert run(["no-such-program"], tmp_path) == Ended(NOT_FOUND, "", "no-such-program is not installed")
    done = run([sys.executable, "-c", "open(__import__('sys').argv[1])", endless], tmp_path, timeout_s=0.5)
    assert done.code < 0
    assert "did not end within 0.5 s" in done.why


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (Ended(1, "", ""), "it ended with exit code 1"),
        (Ended(1, "out\n", ""), "out"),
        (Ended(1, "out\n", "first\nlast\n\n"), "last"),
        (Ended(1, "", "ERROR: the cause\n\nHaving any troubles?\n"), "ERROR: the cause"),
    ],
)
def test_the_last_words_of_a_program(ended: Ended, why: str) -> None:
    assert ended.why == why
