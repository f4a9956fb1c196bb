"""Looks for a worse input than the samples; what it finds joins them, and the candidate is proved once more."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from artifactctl.crew import Crew
from artifactctl.records import ReferenceModel, Tried
from artifactctl.steps.settle import find_level
from artifactctl.steps.verify import bounds_of, prove


def search(
    reference: ReferenceModel, tried: list[Tried], scratch: Path, crew: Crew
) -> tuple[ReferenceModel, list[Tried]]:
    """For each candidate that holds so far; what is found for one counts for all, and for the source itself."""
    seconds, before = reference.source.config.equivalence.search_s, len(reference.plan["entries"])
    if not seconds or not reference.plan["sets"]:
        return reference, tried
    found = []
    for item in tried:
        if item.own:
            # of its own sizes: what is found there is of no use to the others; elsewhere the same file was searched
            alone = item.candidate.fixed and item.own.session == reference.session
            found.append(_at_its_own_sizes(item, item.own, seconds, scratch, crew) if alone else item)
            continue
        reference, searched = _search(reference, item, seconds, scratch, crew)
        found.append(searched)
    if len(reference.plan["entries"]) == before:
        return reference, found
    reference = find_level(reference, crew)
    return reference, [_again(reference, item, crew) for item in found]


def _again(reference: ReferenceModel, item: Tried, crew: Crew) -> Tried:
    """With the samples that were found."""
    if item.equivalence is None or item.candidate.fixed:
        return item
    own = replace(item.own, plan=reference.plan) if item.own else None
    return replace(item, own=own, equivalence=prove(own or reference, item.candidate, crew))


def _at_its_own_sizes(tried: Tried, own: ReferenceModel, seconds: float, scratch: Path, crew: Crew) -> Tried:
    before = len(own.plan["entries"])
    own, tried = _search(own, tried, seconds, scratch / tried.candidate.recipe, crew)
    if len(own.plan["entries"]) == before:
        return tried
    own = find_level(own, crew)
    return replace(tried, own=own, equivalence=prove(own, tried.candidate, crew))


def _search(
    reference: ReferenceModel, tried: Tried, seconds: float, scratch: Path, crew: Crew
) -> tuple[ReferenceModel, Tried]:
    plan = reference.plan
    if tried.equivalence is None or not tried.equivalence.proves_something:
        return reference, tried
    entries = plan["entries"]
    number = f"{int(max(entries)) + 1:05d}"
    place = scratch / "search" / number
    place.mkdir(parents=True)
    target = place / f"{number}.npz"
    found = crew.ask(
        "runner", "search_worst", path=str(tried.candidate.path), reference=str(reference.path),
        settings=asdict(reference.session), bounds=bounds_of(reference.equivalence),
        plan={key: plan[key] for key in ("inputs", "sets", "seed")},
        seconds=crew.limits.within(seconds), target=str(target),
    )  # fmt: skip
    summary = {key: found[key] for key in ("evaluations", "start", "found")} | {"set": number}
    if not target.exists() or not _answered(reference, place, crew):
        return reference, replace(tried, search=summary | {"set": None})
    target.rename(reference.samples / target.name)
    entry = {"set": number, "origin": "search", "rows": 1}
    reference = replace(reference, plan={**plan, "entries": {**entries, number: entry}})
    return reference, replace(tried, search=summary)


def _answered(reference: ReferenceModel, place: Path, crew: Crew) -> bool:
    """The source itself answers what was found, or it is outside its domain."""
    if reference.source.config.source.kind == "onnx":
        path, settings = str(reference.path), asdict(reference.session)
        answers = crew.ask("runner", "answer_as_written", path=path, folder=str(place), settings=settings, states=[])
    else:
        answers = crew.ask("framework", "answer", folder=str(place), states=[])
    return not answers["refused"]
