"""A Tried that differs -> what broke it: the worst sample kept, the pass and the first node named."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError
from artifactctl.records import EquivalenceReport, ReferenceModel, Tried
from artifactctl.steps.optimize import stages_of
from artifactctl.steps.verify import bounds_of

KEEP_BYTES = 500_000_000  # larger rejected models are not kept


def explain(reference: ReferenceModel, tried: Tried, scratch: Path, crew: Crew) -> Tried:
    """Of a candidate that is proved different; anything else is returned as it is."""
    report, candidate = tried.equivalence, tried.candidate
    if report is None or report.passed or report.worst is None or candidate.path is None:
        return tried
    kept, culprit = None, None
    with contextlib.suppress(ArtifactctlError, OSError):  # an explanation that fails must not change the verdict
        kept = keep_evidence(reference, report, candidate.path, candidate.recipe, crew)
        culprit = _culprit(reference, tried, scratch, crew)
    return replace(tried, kept=kept, culprit=culprit)


def keep_evidence(
    reference: ReferenceModel, report: EquivalenceReport, model: Path, name: str, crew: Crew
) -> Path | None:
    """evidence/worst.npz in the work directory, and beside it the model that it was run on."""
    if crew.kept is None or report.worst is None:
        return None
    target = _place(crew.kept, name) / "evidence" / "worst.npz"
    crew.ask(
        "runner", "keep_worst", folder=str(reference.samples), number=report.worst, target=str(target),
        about=about_of(reference),
    )  # fmt: skip
    keep_model(model, name, crew)
    return target


def keep_model(model: Path | None, name: str, crew: Crew) -> Path | None:
    """A candidate that is not written stays for whoever wants to look at it, unless it is too large."""
    if crew.kept is None or model is None:
        return None
    place = _place(crew.kept, name)
    files = [file for file in model.parent.rglob("*") if file.is_file()]
    if sum(file.stat().st_size for file in files) > KEEP_BYTES:
        return None
    shutil.copytree(model.parent, place, copy_function=shutil.copyfile, dirs_exist_ok=True)  # the cache's are read-only
    if model.name != folder.KEPT_MODEL:
        (place / model.name).rename(place / folder.KEPT_MODEL)
    return place / folder.KEPT_MODEL


def _place(kept: Path, name: str) -> Path:
    return kept / re.sub(r"[^\w.-]+", "-", name)


def about_of(reference: ReferenceModel) -> dict[str, Any]:
    """What is needed to judge a kept sample again."""
    return {
        "bounds": bounds_of(reference.equivalence),
        "session": asdict(reference.session),
        "states": reference.plan["states"],
        "batched": reference.plan["batched"],
    }


def first_broken(count: int, holds: Callable[[int], bool]) -> int | None:
    """The first of `count` steps after which it no longer holds, by halving; None when it holds after the last one."""
    if holds(count):
        return None
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return bad


def _culprit(reference: ReferenceModel, tried: Tried, scratch: Path, crew: Crew) -> dict[str, Any] | None:
    assert tried.equivalence is not None
    stages = stages_of(reference, tried.candidate, scratch, crew)
    sample = reference.samples / f"{tried.equivalence.worst}.npz"
    about = about_of(reference)
    common = {"settings": about["session"], "bounds": about["bounds"]}

    def holds(count: int) -> bool:
        try:
            path = str(stages.model_after(count))
            found = crew.ask("runner", "verify_golden", path=path, golden=str(sample), plan=about, **common)
        except ArtifactctlError:
            return False
        return all(output["passed"] for output in found["outputs"])

    broken = first_broken(stages.count, holds)
    if broken is None:
        return None
    good, bad = stages.model_after(broken - 1), stages.model_after(broken)
    node = crew.ask("runner", "first_departure", good=str(good), bad=str(bad), sample=str(sample), **common)
    return {"pass": stages.labels[broken - 1]} | (node or dict.fromkeys(("operator", "node", "output", "error")))
