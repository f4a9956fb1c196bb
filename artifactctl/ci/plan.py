"""Which cells there are, before anything is built: what cannot be planned is an error now, not a skipped job later."""

from __future__ import annotations

import json

from artifactctl.ci import command, inputs, page
from artifactctl.ci.blame import line_of
from artifactctl.ci.finished import Finished, Remark, told


def plan() -> Finished:
    words = ["matrix", *inputs.repeated("providers", "provider"), *inputs.repeated("runners", "runner")]
    words += [*inputs.options("gpu-runner"), "--", *inputs.words("models")]
    done = command.run(*words)
    if done.error:
        line = line_of(done.error["name"], done.error["message"])
        shown = page.failed("plan", done.error["name"], done.error["message"], done.error["hint"], done.line)
        return Finished(done.code, shown, remarks=(Remark(done.error["name"], told(done.error, done.line), line),))
    cells = done.data["include"]
    models = list(dict.fromkeys(cell["model"] for cell in cells))
    outputs = {"matrix": json.dumps({"include": cells}), "models": " ".join(models)}
    return Finished(0, page.planned(cells), outputs)
