"""Asking Olive's process: its answer, or in words why there is none."""

from __future__ import annotations

import shutil
from typing import Any

from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, is_full_disk
from artifactctl.process import OperationFailed, Worker, WorkerDied

DIED = "Olive's process"
UNFINISHED = "given up: optimize.budget_s ended during it; give it more seconds, or name the recipe"
ENDLESS = f"{DIED} did not end within the time limit; give it more with --time-limit S"
SHORTEST_S = 1.0  # of a second try
LINES_OF_VALIDATION = 3  # of pydantic: how many errors, which key, what is wrong with it


def attempt(crew: Crew, operation: str, time_s: float, **arguments: Any) -> dict[str, Any] | str:
    """A crash costs the child, not the build, and is tried once more in what is left of the time, without what it had
    written into `folder`: what happens twice is its answer. That Olive cannot be loaded at all ends the build."""
    clock = Clock(time_s)
    for last in (False, True):
        try:
            left = max(SHORTEST_S, clock.left) if last else time_s
            return _answer(crew.olive_ready(), crew, operation, left, arguments)
        except WorkerDied as error:
            crew.dismiss("olive")
            if error.timed_out:
                return UNFINISHED if time_s < crew.limits.time_s else ENDLESS
            if last:
                return f"{DIED} {error.why}, twice"
            shutil.rmtree(arguments["folder"], ignore_errors=True)
    raise AssertionError("the second crash is an answer")


def is_no_answer(found: str) -> bool:
    """Whether its process ended over it, which says nothing about what was asked: another time it may not."""
    return found.startswith(DIED) or is_late(found)


def is_late(found: str) -> bool:
    """Whether a clock ended it: on another machine it may have been in time."""
    return found in (UNFINISHED, ENDLESS)


def _answer(
    worker: Worker, crew: Crew, operation: str, time_s: float, arguments: dict[str, Any]
) -> dict[str, Any] | str:
    try:
        found: dict[str, Any] = worker.call(operation, timeout_s=time_s, **arguments)
    except OperationFailed as error:
        lines = str(error).strip().splitlines()
        told = LINES_OF_VALIDATION if "validation error" in lines[0] else 1  # the first line names no key
        return crew.plain(": ".join(line.strip() for line in lines[:told])[:300])
    except ArtifactctlError as error:  # among them: a package that only this pass needs is missing
        if is_full_disk(error):
            raise
        return crew.plain(str(error) if error.hint == error.default_hint else f"{error}. {error.hint}")
    return found
