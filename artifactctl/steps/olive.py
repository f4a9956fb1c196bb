"""Asking Olive's process: its answer, or in words why there is none."""

from __future__ import annotations

from typing import Any

from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, NotAvailable
from artifactctl.process import OperationFailed, WorkerDied

DIED = "Olive's process"


def attempt(crew: Crew, operation: str, time_s: float, **arguments: Any) -> dict[str, Any] | str:
    """A crash costs the child, not the build."""
    try:
        found: dict[str, Any] = crew.olive_ready().call(operation, timeout_s=time_s, **arguments)
    except WorkerDied as error:
        crew.dismiss("olive")
        return f"{DIED} {error.why}"
    except OperationFailed as error:
        return crew.plain(str(error).strip().splitlines()[0][:300])
    except NotAvailable:
        raise
    except ArtifactctlError as error:
        return crew.plain(str(error))
    return found
