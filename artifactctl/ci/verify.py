"""One artifact on one provider, and the evidence of it. Needs no configuration: the artifact carries its bounds."""

from __future__ import annotations

import tempfile
from pathlib import Path

from artifactctl import cells, inspection
from artifactctl.ci import command, inputs, page
from artifactctl.ci.finished import Finished, Remark, told


def verify() -> Finished:
    named, provider = inputs.required("artifact"), inputs.required("provider")
    artifact, scratch = Path(named), Path(inputs.text("output") or tempfile.mkdtemp(prefix="artifactctl-"))
    if artifact.is_file():
        artifact, _ = inspection.opened(artifact, scratch)
    words = ["verify", *inputs.options("samples"), f"--provider={provider}", "--save-evidence"]
    done = command.run(*words, "--", str(artifact))
    evidence = cells.path_of(artifact, provider)
    title = f"{artifact.parent.name} {artifact.name}"
    line = command.typed("verify", f"artifacts/{artifact.parent.name}/{artifact.name}", "--provider", provider)
    outputs = {"verdict": done.data.get("verdict", ""), "evidence": str(evidence) if evidence.exists() else ""}
    shown = page.verified(done.data, title, done.error, line)
    if done.error is None:
        return Finished(0, shown, outputs)
    remark = Remark(done.error["name"], told(done.error, line, f"{title} on {provider}: "))
    return Finished(done.code, shown, outputs, (remark,))
