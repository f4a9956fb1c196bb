"""The flow, on one screen: source -> reference -> candidates -> proof -> measurement -> choice -> artifact_vN.

And what comes after it: artifact_vN -> package -> commit -> tag -> push.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from artifactctl import folder, licences, recipes
from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.errors import NotAvailable, OptimizeError
from artifactctl.folder import ArtifactFolder
from artifactctl.git.repository import open_repository
from artifactctl.inputs import check_files, demand_same_files
from artifactctl.project import BuildRequest, ReleaseRequest, Say
from artifactctl.records import Candidate, Choice, LatencyReport, ReferenceModel, Tried
from artifactctl.steps import publish
from artifactctl.steps import release as steps
from artifactctl.steps.assemble import assemble
from artifactctl.steps.choose import choose_again
from artifactctl.steps.contest import Contest
from artifactctl.steps.diff import release_notes
from artifactctl.steps.explain import explain
from artifactctl.steps.export import fixed_reference, make_reference
from artifactctl.steps.ingredients import Kitchen, stock
from artifactctl.steps.measure import sample_of
from artifactctl.steps.olive import ENDLESS, UNFINISHED
from artifactctl.steps.optimize import check_olive_file, optimize
from artifactctl.steps.package import package as make_package
from artifactctl.steps.places import everywhere, reference_form
from artifactctl.steps.portable import demand_promise, hold
from artifactctl.steps.preflight import choose as choose_target
from artifactctl.steps.preflight import demand_ready, demand_tag_free_or_equal, previous_release, warnings
from artifactctl.steps.release import Release
from artifactctl.steps.reuse import Reuse
from artifactctl.steps.search import search
from artifactctl.steps.sides import Side, side_of
from artifactctl.steps.source import read_source
from artifactctl.steps.standing import Contender, demand_not_slower, stand
from artifactctl.steps.trials import LATE
from artifactctl.steps.tune import as_tuned, tune
from artifactctl.steps.verify import put_to_proof
from artifactctl.stores import store_of
from artifactctl.tags import message
from artifactctl.unchanged import find_unchanged

NOT_TRIED = "not tried: optimize.budget_s ended before its turn"
NOBODY: Mapping[str, str] = MappingProxyType({})


def build(request: BuildRequest, crew: Crew, say: Say) -> ArtifactFolder:
    """One model, from its source to a proven version."""
    with _at_work(request, crew) as scratch:
        if found := find_unchanged(request, say):  # another build may have finished while this one waited
            return found
        contest, tried = _candidates(request, scratch, request.config.budget_s, crew, say)
        reference = contest.reference
        choice = contest.choose(tried, Tried(reference_form(reference), reference.itself))
        if request.config.session:
            choice = tune(contest, choice)
        choice = contest.with_defaults(choice)
        standing = _against_the_past(reference, choice, request.home, crew, say)
        demand_not_slower(standing, choice, crew)
        demand_same_files(reference.source.files, request.config, request.root)
        say(f"writing {request.config.name}/artifact_v{folder.next_free(request.home)}")
        return assemble(reference, choice, standing, request.home, scratch, crew)


def rebuild(request: BuildRequest, recorded: Mapping[str, Any], crew: Crew, say: Say) -> ArtifactFolder | str:
    """A recorded version once more, into another place: proved, not timed. A text says why it cannot be had."""
    with _at_work(request, crew) as scratch:
        entries = recorded["recipe"]["candidates"]
        late = (NOT_TRIED, UNFINISHED, ENDLESS, LATE)
        passed_by = {entry["recipe"]: entry["reason"] for entry in entries if entry["reason"] in late}
        contest, tried = _candidates(request, scratch, math.inf, crew, say, passed_by)
        reference = contest.reference
        choice = choose_again(tried, Tried(reference_form(reference), reference.itself), entries, recorded["session"])
        demand_same_files(reference.source.files, request.config, request.root)
        if isinstance(choice, str):
            return choice
        if request.config.session:
            choice = as_tuned(reference, choice, recorded["session"], crew)
        return assemble(reference, choice, {}, request.home, scratch, crew)


@contextlib.contextmanager
def _at_work(request: BuildRequest, crew: Crew) -> Iterator[Path]:
    """A scratch folder for a build that has what it needs."""
    config = request.config
    check_files(config, request.root)
    if find_spec("olive") is None:
        raise NotAvailable("Olive is not installed, and every recipe needs it", hint="pip install 'artifactctl[build]'")
    for name in recipes.expand(config)[0]:
        if name.startswith(recipes.OLIVE_PREFIX):
            file = name.removeprefix(recipes.OLIVE_PREFIX)
            check_olive_file(request.root / file, file)
    with (
        folder.workplace(request.artifacts, config.name) as scratch,
        crew.working_in(scratch, request.root, folder.kept_place(request.artifacts, config.name)),
    ):
        yield scratch


def _candidates(
    request: BuildRequest, scratch: Path, budget_s: float, crew: Crew, say: Say, passed_by: Mapping[str, str] = NOBODY
) -> tuple[Contest, list[Tried]]:
    """The source's own answers, and every recipe proved against them; what was passed by for want of time stays so."""
    config = request.config
    names, named = recipes.expand(config)
    if warned := licences.warning(config.license):
        say(f"warning: {warned}")
    reuse = Reuse(request, say)
    if not reuse.is_warm():
        crew.olive  # noqa: B018 - loads while the source is read and exported
    say(f"reading {config.source.target}")
    source = read_source(config, request.root, scratch, crew)
    say("asking the source for its answers")
    reference = make_reference(source, config.providers[0], scratch, crew)
    demand_promise(reference, crew)
    clock = Clock(budget_s)  # of the search: how long a source takes to answer is not its doing
    kitchen = Kitchen(reference, stock(reference, names, scratch, crew), scratch, crew, clock, named)
    made: dict[str, Tried] = {}
    for name in sorted(names, key=lambda name: name in recipes.JUDGED):  # a search comes after all that is cheap
        if name in passed_by or (kitchen.is_late(name) and any(item.equivalence for item in made.values())):
            failure = passed_by.get(name, NOT_TRIED)
            made[name] = Tried(Candidate(name, None, reference.precision, failure=failure))
        else:
            made[name] = _try(kitchen, name, list(made.values()), reuse, say)
    tried = [made[name] for name in names]
    reuse.remember()
    if named and all(item.candidate.broken for item in tried):
        reasons = "\n".join(f"  {item.candidate.recipe}: {item.candidate.failure}" for item in tried)
        raise OptimizeError(f"no recipe gave a model\n{reasons}")
    reference, tried = search(reference, everywhere(reference, tried, crew, say), scratch, crew)
    tried = [explain(item.own or reference, item, scratch, crew) for item in tried]
    return Contest(reference, clock, crew, say), tried


def _try(kitchen: Kitchen, name: str, before: list[Tried], reuse: Reuse, say: Say) -> Tried:
    candidate = hold(kitchen.reference, optimize(kitchen, name, before, reuse), kitchen.crew)
    if candidate.path is None:
        return Tried(candidate)
    say(f"recipe {name}: proving")
    if candidate.fixed is None:
        return put_to_proof(kitchen.reference, candidate, kitchen.crew)
    own = fixed_reference(kitchen.reference, candidate.fixed, kitchen.scratch / f"samples-{name}", kitchen.crew)
    if isinstance(own, str):
        return Tried(replace(candidate, path=None, failure=own))
    return put_to_proof(kitchen.reference, candidate, kitchen.crew, own)


def _against_the_past(
    reference: ReferenceModel, choice: Choice, home: Path, crew: Crew, say: Say
) -> dict[str, LatencyReport]:
    """The chosen model against the versions before it, in pairs."""
    config, path, own = reference.source.config, choice.chosen.candidate.path, choice.chosen.own or reference
    assert path is not None
    side = Side("the new model", path, known_as=config.name)
    contender = Contender(side, sample_of(own), own.session, reference.seed, config.providers)
    return stand(contender, home, folder.next_free(home), config.latency, crew, say)


def release(request: ReleaseRequest, crew: Crew, say: Say) -> Release:
    """One version, from its folder to a published tag. Every step looks first, so a second run goes on."""
    with open_repository(request.root) as repository:
        remote = (request.remote or repository.default_remote() or "origin") if request.push else None
        target = choose_target(request.reference, request.project, request.root, remote)
        store = store_of(request.project.release.store if request.project else "git")
        demand_tag_free_or_equal(target, repository)
        if target.remote and (found := publish.overtaken(target, repository, dry_run=request.dry_run)):
            return Release(target.tag, repository.commit_at(f"refs/tags/{target.tag}"), (found,), warnings(target))
        demand_ready(target, repository, store, resume=request.resume)
        if request.dry_run:
            return Release(target.tag, None, steps.planned(target, repository, store), warnings(target))
        with (
            folder.workplace(request.root / "artifacts", target.model) as scratch,
            crew.working_in(scratch, request.root, None),
        ):
            known = steps.published_digest(target, repository)
            package = make_package(target.artifact, target.dist, crew, say, expected=known, given=request.package)
            subject, trailers = steps.subject(target.metadata), steps.trailers(target, package)
            notes = steps.published_notes(target, repository) or release_notes(
                previous_release(target, scratch), side_of(target.artifact), crew
            )
            done = [steps.packaged(package), steps.write_baseline(target, repository)]
            if target.remote:
                publish.intend(target, repository)
            commit, step = steps.commit(target, repository, store, message(subject, target.title, trailers))
            tagged = steps.tag(target, repository, commit, message(subject, notes, trailers), package)
            done += [step, tagged, steps.write_dist(target, package, notes)]
            if target.remote:
                say(f"pushing to {target.remote}")
                done.append(publish.push(target, repository, store, package))
            commit = repository.commit_at(f"refs/tags/{target.tag}") or commit
            return Release(target.tag, commit, tuple(done), warnings(target), package)
