"""One artifact on one provider, and the evidence of it. Needs no configuration: the artifact carries its bounds."""

from __future__ import annotations

import tempfile
from pathlib import Path

from artifactctl import cells, inspection
from artifactctl.ci import command, inputs, page, stage
from artifactctl.ci.finished import Finished, Remark, told
from artifactctl.errors import SourceError
from artifactctl.providers import PROVIDERS


def verify() -> Finished:
    artifact, provider = _named(), inputs.required("provider")
    named = artifact
    if packed := artifact.is_file():
        scratch = Path(inputs.text("output") or tempfile.mkdtemp(prefix="artifactctl-"))
        scratch.mkdir(parents=True, exist_ok=True)
        artifact, _ = inspection.opened(artifact, scratch)
    words = ["verify", *inputs.options("samples"), f"--provider={provider}", "--save-evidence"]
    evidence = cells.path_of(artifact, provider)
    if provider in PROVIDERS:
        evidence.unlink(missing_ok=True)  # what an earlier run proved says nothing about this one
    done = command.run(*words, "--", str(artifact))
    model = named.name if packed else artifact.parent.name
    title = model if packed else f"{model} {artifact.name}"
    place = f"dist/{model}" if packed else f"artifacts/{model}/{artifact.name}"
    line = command.typed("verify", place, "--provider", provider)
    outputs = {"verdict": done.data.get("verdict", ""), "evidence": str(evidence) if evidence.exists() else ""}
    shown = page.verified(done.data, title, done.error, line)
    if done.error is None:
        return Finished(0, shown, outputs)
    remark = Remark(done.error["name"], told(done.error, line, f"{title} on {provider}: "))
    return Finished(done.code, shown, outputs, (remark,))


def _named() -> Path:
    """The artifact itself, or a model of what the build handed over."""
    if not inputs.text("build"):
        return Path(inputs.required("artifact"))
    place, model = Path(inputs.text("build")), inputs.required("model")
    build = stage.read(place)
    found = [entry for entry in build["artifacts"] if entry["model"] == model] if build else []
    if not found:
        raise SourceError(f"the build made no artifact of {model}", hint="Look at the job that built.")
    return place / stage.relative(found[0])
