"""A model with faults put into it, one at a time -> which of them the proof of a build catches."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, NotAvailable, NotProven, SourceError
from artifactctl.project import ModelConfig, Say, Source
from artifactctl.providers import PROVIDERS
from artifactctl.records import Candidate, ReferenceModel
from artifactctl.steps.export import make_reference
from artifactctl.steps.source import read_source
from artifactctl.steps.verify import prove

MIN_FAULTS = 12
STEPS = 23  # that are said: three, and one for each fault
BUILT_IN = "built-in"
WRONG_PROVIDER = "wrong_provider"


@dataclass(frozen=True, slots=True)
class Fault:
    """`how` says how it was caught, or why it could not be injected; `detail` where it was injected."""

    name: str
    caught: bool
    applicable: bool
    how: str
    detail: str


@dataclass(frozen=True, slots=True)
class Selftest:
    model: str
    target: str | None  # the float that the host's outputs are made of
    false_alarm: str | None  # what the proof said against a model that is right
    faults: tuple[Fault, ...]

    @property
    def injected(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.applicable)

    @property
    def slipped(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.injected if not fault.caught)


def judge(found: Selftest) -> ArtifactctlError | None:
    """The proof is trusted only if it catches every fault and accuses no sound model."""
    if found.false_alarm:
        message = f"the proof rejects a model that is right: {found.false_alarm}"
        return NotProven(message, hint="Please report it with the model: a proof that cries wolf is of no use.")
    if found.slipped:
        names = ", ".join(f"{fault.name} ({fault.detail})" for fault in found.slipped)
        hint = "Run 'artifactctl inspect FILE --inputs' to see what it is tried on, and report the gap with the model."
        return NotProven(f"{len(found.slipped)} of {len(found.injected)} faults slipped through: {names}", hint=hint)
    if len(found.injected) < MIN_FAULTS:
        why = "it has no float that reaches an output" if found.target is None else "too many have no effect on it"
        message = f"only {len(found.injected)} faults apply to {found.model}, and {MIN_FAULTS} are needed: {why}"
        return SourceError(message, hint="Run 'artifactctl selftest' without a model, or name one with float outputs.")
    return None


def selftest(model: Path | None, shown: str, crew: Crew, say: Say) -> Selftest:
    """The faults are judged by the function that judges the candidates of a build."""
    scratch = crew.scratch
    host = scratch / "host" / "host.onnx"
    say("making the host of the faults")
    info = crew.ask("runner", "make_host", path=str(model.resolve()) if model else None, target=str(host))
    config = ModelConfig("selftest", Source("onnx", host.name))
    source = read_source(config, host.parent, scratch, crew)
    say("asking the host for its answers")
    reference = make_reference(source, "cpu", scratch, crew)
    say("proving models that are right")
    alarm = _false_alarm(reference, info, scratch, crew)
    faults = []
    for name in info["faults"]:
        say(f"fault {name}")
        faults.append(_try(name, reference, info, scratch, crew))
    say(f"fault {WRONG_PROVIDER}")
    faults.append(_wrong_provider(reference, crew))
    return Selftest(shown, info["target"], alarm, tuple(faults))


def _false_alarm(reference: ReferenceModel, info: dict[str, Any], scratch: Path, crew: Crew) -> str | None:
    """The host itself, and the host with one value changed in its last bit."""
    report = prove(reference, Candidate("unchanged", reference.path, reference.precision), crew)
    if not report.passed:
        return f"unchanged: {report.reason}"
    fault = _try("one_ulp", reference, info, scratch, crew)
    return f"one_ulp: {fault.how}" if fault.caught else None


def _try(name: str, reference: ReferenceModel, info: dict[str, Any], scratch: Path, crew: Crew) -> Fault:
    target = scratch / "fault" / "model.onnx"
    try:
        made = crew.ask(
            "runner", "inject", fault=name, host=str(reference.path), info=info, plan=dict(reference.plan),
            samples=str(reference.samples), target=str(target),
        )  # fmt: skip
        if not made["applicable"]:
            return Fault(name, False, False, made["why"], "")
        report = prove(reference, Candidate(name, target, reference.precision), crew)
    except SourceError as error:  # nothing was shown about the proof
        return Fault(name, False, False, f"it cannot be injected: {error}", "")
    finally:
        shutil.rmtree(target.parent, ignore_errors=True)  # large models would fill the disk
    return Fault(name, not report.passed, True, _line(report.reason or "the proof passed"), made["where"])


def _wrong_provider(reference: ReferenceModel, crew: Crew) -> Fault:
    """ONNX Runtime by itself goes on with the CPU, and says nothing."""
    here = crew.ask("runner", "describe_runtime")["providers"]
    absent = next((row for row in PROVIDERS.values() if row.execution_provider not in here), None)
    if absent is None:
        return Fault(WRONG_PROVIDER, False, False, "this machine has every provider", "")
    session = replace(reference.session, provider=absent.name, execution_provider=absent.execution_provider)
    where = f"session with {absent.execution_provider}"
    try:
        report = prove(
            replace(reference, session=session), Candidate(WRONG_PROVIDER, reference.path, reference.precision), crew
        )
    except NotAvailable as refusal:
        return Fault(WRONG_PROVIDER, True, True, _line(str(refusal)), where)
    return Fault(
        WRONG_PROVIDER, False, True, _line(f"it was not refused: {report.reason or 'the proof passed'}"), where
    )


def _line(text: str) -> str:
    return " ".join(text.split())
