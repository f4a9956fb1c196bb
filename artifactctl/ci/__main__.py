"""python -m artifactctl.ci STEP: the logic of an action, with its inputs in INPUT_* variables."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from artifactctl.ci import finished, inputs, page
from artifactctl.ci.finished import Finished, Remark
from artifactctl.errors import ArtifactctlError

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
    except (ArtifactctlError, OSError) as error:
        known = isinstance(error, ArtifactctlError)
        name, code = (error.name, error.exit_code) if isinstance(error, ArtifactctlError) else ("NotAvailable", 9)
        hint = error.hint if isinstance(error, ArtifactctlError) else "Check the paths that the step was given."
        said = str(error) if known else f"{getattr(error, 'strerror', None) or error}"
        sys.stderr.write(f"{name}: {said}\nNext: {hint}\n")
        done = Finished(code, page.failed(step, name, said, hint), remarks=(Remark(name, f"{said}\nNext: {hint}"),))
    return finished.tell(done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
