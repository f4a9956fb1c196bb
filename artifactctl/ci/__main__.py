"""python -m artifactctl.ci STEP: the logic of an action, with its inputs in INPUT_* variables."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from artifactctl.ci import finished, inputs, page
from artifactctl.ci.blame import line_of
from artifactctl.ci.finished import Finished, Remark
from artifactctl.cli import disk_error
from artifactctl.errors import ArtifactctlError
from artifactctl.report import github

STEPS = ("plan", "build", "verify", "gate", "release")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in STEPS:
        sys.stderr.write(f"usage: python -m artifactctl.ci {'|'.join(STEPS)}\n")
        return 2
    (step,) = arguments
    try:
        if place := inputs.text("directory"):
            os.chdir(place)
        done: Finished = getattr(import_module(f"artifactctl.ci.{step}"), step)()
    except ArtifactctlError as error:
        done = _failed(step, error)
    except OSError as error:
        done = _failed(step, disk_error(error))
    return finished.tell(done)


def _failed(step: str, error: ArtifactctlError) -> Finished:
    said = f"{error}\nNext: {error.hint}"
    with github.commands_off():
        sys.stderr.write(f"{error.name}: {said}\n")
    shown = page.failed(step, error.name, str(error), error.hint)
    return Finished(error.exit_code, shown, remarks=(Remark(error.name, said, line_of(error.name, str(error))),))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
