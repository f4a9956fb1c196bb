"""The child process: reads requests from stdin, runs one operation at a time, answers on its first stdout."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import IO, Any

from artifactctl.errors import NO_MEMORY_HINT, NO_SPACE_HINT, ArtifactctlError, NotAvailable, SourceError

# operation -> module that has a function of that name; modules are imported on first use
OPERATIONS = {
    "inspect": "graph",
    "describe_for_diff": "compare",
    "weight_changes": "compare",
    "stage_onnx": "streams",
    "save_normalized": "graph",
    "saturating_layers": "saturation",
    "graph_differences": "likeness",
    "plan_inputs": "samples",
    "write_samples": "samples",
    "branches_taken": "coverage",
    "answer_as_written": "proof",
    "prove": "proof",
    "noise": "proof",
    "write_golden": "proof",
    "verify_golden": "again",
    "verify_fresh": "again",
    "keep_worst": "again",
    "first_sample": "again",
    "describe_sample": "again",
    "with_rows": "again",
    "read_about": "again",
    "search_worst": "search",
    "float64_noise": "double",
    "first_departure": "culprit",
    "time_round": "timing",
    "load_round": "timing",
    "surveys": "timing",
    "describe_machine": "timing",
    "count_denormals": "denormals",
    "profile_models": "profiling",
    "export": "framework",
    "answer": "framework",
    "recipe_facts": "facts",
    "would_saturate": "facts",
    "node_extremes": "extremes",
    "weighted_layers": "layers",
    "layer_errors": "sensitivity",
    "worst_layers": "sensitivity",
    "write_calibration": "calibration",
    "demand_taken": "calibration",
    "identity": "fingerprint",
    "olive_load": "olive_passes",
    "olive_pass": "olive_passes",
    "olive_run": "olive_passes",
    "olive_package": "olive_packaging",
    "open_ort_package": "ortpackages",
    "describe_runtime": "runtime",
    "make_host": "host",
    "inject": "faults",
    "sign_files": "signing",
    "sign_keyless": "signing",
    "check_signature": "signing",
    "check_own_signature": "signing",
}


def main() -> None:
    answers, incoming = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)  # whatever the libraries print goes to the log
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # code that asks for input gets none
    _die_with_parent()
    _limit_memory(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1] else None)
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_receive, args=(incoming, requests), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        answers.write(_perform(request["operation"], request["arguments"]) + "\n")
        answers.flush()


def _receive(stream: IO[str], requests: queue.Queue[str]) -> None:
    for line in stream:
        requests.put(line)
    os._exit(0)  # the parent is gone; do not run exit handlers that may wait


def _die_with_parent() -> None:
    """Linux ends the child at once even while native code holds the interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _limit_memory(memory_mb: int | None) -> None:
    """An allocation beyond the limit fails here, with a name, before the system kills whatever it likes."""
    if sys.platform != "linux":
        return
    import resource

    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    limit = (memory_mb << 20) if memory_mb else page * pages // 10 * 9
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with contextlib.suppress(ValueError, OverflowError):  # more than the system can count is no limit
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _perform(operation: str, arguments: dict[str, Any]) -> str:
    try:
        module = importlib.import_module(f"artifactctl.backends.{OPERATIONS[operation]}")
        return json.dumps({"result": getattr(module, operation)(**arguments)}, allow_nan=False)
    except ArtifactctlError as error:
        return _foreseen(error)
    except ImportError as error:
        return _foreseen(NotAvailable(f"{error.name or 'a package'} cannot be imported here ({error})"))
    except MemoryError as error:
        return _foreseen(SourceError(f"out of memory ({operation}): {error}", hint=NO_MEMORY_HINT))
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _foreseen(SourceError(f"out of memory ({operation})", hint=NO_MEMORY_HINT))
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _foreseen(NotAvailable("no space left on the disk", hint=NO_SPACE_HINT))
        return _unforeseen(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the one border: the parent decides what it means
        return _unforeseen(error)


def _foreseen(error: ArtifactctlError) -> str:
    return json.dumps({"error": {"kind": error.name, "message": str(error), "hint": error.hint, "trace": ""}})


def _unforeseen(error: BaseException) -> str:
    trace = traceback.format_exc()
    sys.stderr.write(trace)
    return json.dumps({"error": {"kind": type(error).__name__, "message": str(error), "hint": "", "trace": trace}})


if __name__ == "__main__":
    main()
