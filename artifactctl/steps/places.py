"""Where candidates may run: on the build's own provider, and on every other one that the configuration allows and this
machine really has. An emulator's time means nothing, so it is not among them."""

from __future__ import annotations

from dataclasses import replace

from artifactctl import recipes, runtimes
from artifactctl.crew import Crew
from artifactctl.errors import NotAvailable, NotEquivalent, SourceError
from artifactctl.project import Say
from artifactctl.providers import CPU, PROVIDERS
from artifactctl.records import SOURCE_RECIPE, Candidate, Choice, ReferenceModel, Session, Tried
from artifactctl.steps.export import session_for
from artifactctl.steps.settle import find_level
from artifactctl.steps.verify import put_to_proof, refused


def other_places(
    reference: ReferenceModel, crew: Crew, say: Say
) -> tuple[list[tuple[ReferenceModel, Tried]], list[Tried]]:
    """Each with the source as it is proved there, or with the reason where it does not run, or leaves its own bound;
    and the reasons why others are not here."""
    config, taken = reference.source.config, {reference.session.execution_provider}
    found, missing = list[tuple[ReferenceModel, Tried]](), list[Tried]()
    here, packages = crew.ask("runner", "describe_runtime")["providers"], runtimes.installed()
    for name in config.providers[1:]:
        row = PROVIDERS[name]
        if row.emulated or row.why_not_here() or row.execution_provider in taken:  # `matrix` has another machine for it
            continue
        source = reference_form(reference)
        if why := runtimes.why_unavailable(row, here, packages):
            session = replace(reference.session, provider=name, execution_provider=row.execution_provider)
            gone = NotAvailable(f"not tried: {why[0]}; to have it tried: {why[1]}, then build --force")
            missing.append(refused(source, gone, replace(reference, session=session)))
            continue
        taken.add(row.execution_provider)
        say(f"asking whether the source runs on {name}")
        there = replace(reference, session=session_for(name, crew, config.options_on(name)))
        try:
            there = find_level(there, crew)
            found.append((there, put_to_proof(reference, source, crew, there)))
        except (SourceError, NotEquivalent, NotAvailable) as error:
            found.append((there, refused(source, error, there)))
    return found, missing


def everywhere(reference: ReferenceModel, tried: list[Tried], crew: Crew, say: Say) -> list[Tried]:
    """Each candidate that holds, on every place; there the source itself too: what is rewritten for ONNX Runtime's own
    kernels may be what another provider would have known by its pieces. It comes behind the simplest recipe: whoever
    falls back to the build's own provider is better off with that. Where the source does not run, a candidate may, and
    is told of only then."""
    places, missing = other_places(reference, crew, say)
    found = list[Tried]()
    for item in tried:
        found.append(item)
        if item.equivalence and item.equivalence.proves_something:
            for place, source in [] if recipes.tried_on_cpu_alone(item.candidate.recipe) else places:
                there = put_to_proof(reference, item.candidate, crew, _at(place, item))
                runs = there.equivalence is not None and there.equivalence.proves_something
                found += [there] if runs or source.equivalence else []
        if item is tried[0]:
            found += [source for _, source in places]
    return found + missing


def _at(place: ReferenceModel, item: Tried) -> ReferenceModel:
    """With the samples of its own sizes, where it has such."""
    return replace(item.own, session=place.session) if item.own else place


def reference_form(reference: ReferenceModel) -> Candidate:
    return Candidate(SOURCE_RECIPE, reference.path, reference.precision, reference.size_bytes)


def fall_back(reference: ReferenceModel, choice: Choice) -> Session | None:
    """What runs the same file where the chosen provider is missing: plain CPU, if the configuration allows it."""
    if (choice.chosen.own or reference).session.execution_provider == CPU:
        return None
    sessions = [reference.session, *(item.own.session for item in choice.tried if item.own)]
    return next((session for session in sessions if session.execution_provider == CPU), None)
