"""The steps of a release. Each observes first: equal -> skip, absent -> do, different -> Conflict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl import baselines, folder, jsontext, statements, tags
from artifactctl.errors import Conflict, ReleaseError
from artifactctl.git.repository import GitFailed, Repository
from artifactctl.records import Session, Timing
from artifactctl.steps.package import Package
from artifactctl.steps.preflight import Target, beside, branch_lags, find_conflict, inside, needs_commit
from artifactctl.stores import Store, holds

DONE, SKIPPED, PLANNED = "done", "skipped", "planned"
OVERTAKEN = "overtaken"  # someone else published the same meanwhile
PUBLISHING = ("commit", "tag", "push")  # files in dist/ can be made from a release at any time


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    status: str  # done, skipped, planned, overtaken
    detail: str


@dataclass(frozen=True, slots=True)
class Release:
    tag: str
    commit: str | None
    steps: tuple[Step, ...]
    warnings: tuple[str, ...]
    package: Package | None = None

    @property
    def status(self) -> str:
        if any(step.status == PLANNED for step in self.steps):
            return "planned"
        if any(step.status == OVERTAKEN for step in self.steps):
            return "unchanged"
        pushing = [step for step in self.steps if step.name == "push"]
        published = any(step.status == DONE for step in pushing or self.steps if step.name in PUBLISHING)
        return "released" if published else "unchanged"


def planned(target: Target, repository: Repository, store: Store) -> tuple[Step, ...]:
    """What a run would do, from what is there."""
    there = repository.tag(target.tag)
    new = needs_commit(target, repository, store)
    exists = (target.dist / f"{target.package_name}.zip").exists()
    sums = (target.dist / f"{target.package_name}.SHA256SUMS").exists()
    plan = [
        ("package", exists, f"{folder.shown(target.dist)}/{target.package_name}.zip"),
        ("commit", not new, subject(target.metadata)),
        ("tag", there is not None, target.tag),
        ("checksums", sums, f"{target.package_name}.SHA256SUMS and what it lists"),
    ]
    if target.remote:
        ref = f"refs/tags/{target.tag}"
        published = ref in repository.remote_refs(target.remote, ref) and not new
        published = published and not branch_lags(target, repository, store)
        plan.append(("push", published, f"{target.remote}: {target.tag}"))
    return tuple(Step(name, SKIPPED if there_already else PLANNED, detail) for name, there_already, detail in plan)


def published_digest(target: Target, repository: Repository) -> str | None:
    """Of the package, as its tag has it."""
    existing = repository.tag(target.tag)
    said = tags.parse_trailers(existing.message) if existing else {}
    return said.get("Artifact-Package-Digest", "").removeprefix("sha256:") or None


def packaged(package: Package) -> Step:
    return Step("package", DONE if package.status == "written" else SKIPPED, folder.shown(package.path))


def published_notes(target: Target, repository: Repository) -> str | None:
    """As its tag has them: what they tell of the version before it may not be here any more."""
    existing = repository.tag(target.tag)
    return f"{tags.body(existing.message)}\n" if existing else None


def write_baseline(target: Target, repository: Repository) -> Step:
    """What was measured when it was built, on the machine that it was built on; never of an older version."""
    if repository.tag(target.tag):
        return Step("baseline", SKIPPED, "the version is released already")
    provider = target.metadata["session"]["provider"]
    evidence = read_evidence(target.artifact, provider)
    name = folder.shown(target.baseline)
    if not evidence or not target.metadata["latency"] or "machine" not in evidence:
        return Step("baseline", SKIPPED, "the artifact holds no measurement of a known machine")
    session = replace(Session.recorded(target.metadata["session"]), placement=None)
    timing = Timing(**target.metadata["latency"]["candidate"])
    artifact = {"version": target.version, "sha256": target.digest}
    made = baselines.content(target.model, artifact, timing, evidence["machine"], session)
    there = baselines.read(target.baseline)
    if there == json.loads(json.dumps(made)):
        return Step("baseline", SKIPPED, f"{name} is of this version already")
    if there and there["artifact"]["version"] > target.version:
        return Step("baseline", SKIPPED, f"{name} is of version {there['artifact']['version']}")
    jsontext.write(target.baseline, made)
    return Step("baseline", DONE, name)


def read_evidence(artifact: Path, provider: str) -> dict[str, Any] | None:
    file = artifact / "evidence" / f"latency.{provider}.json"
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def subject(metadata: Mapping[str, Any]) -> str:
    """Of commit and tag: the bound in it is the bound that was proved."""
    statement = str(metadata["equivalence"]["statement"])
    text = statement.removeprefix("max_abs ") if statement.startswith("max_abs ≤") else f"({statement})"
    return f"Optimized ONNX artifact, verified equivalence {text}"


def trailers(target: Target, package: Package) -> dict[str, str | None]:
    metadata = target.metadata
    proof, previous = metadata["equivalence"], metadata["previous"]
    size = metadata["model"]["size_bytes"]
    return {
        "Artifact-Digest": f"sha256:{target.digest}",
        "Artifact-Package-Digest": f"sha256:{package.sha256}",
        "Artifact-Equivalence": f"{proof['statement']}; {_number(proof['max_error'])} on {proof['samples']} samples",
        "Artifact-Latency": _latency(metadata),
        "Artifact-Accuracy-Drop": None if metadata["accuracy_drop"] is None else f"{metadata['accuracy_drop']:+.4f}",
        "Artifact-Model": f"{metadata['precision']}, opset {metadata['opset']}, {size} bytes",
        "Artifact-Recipe": metadata["recipe"]["name"],
        "Artifact-Previous": f"artifact_v{previous['version']} sha256:{previous['sha256']}" if previous else "none",
    }


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"largest error {value:.3g}"


def _latency(metadata: Mapping[str, Any]) -> str:
    latency = metadata["latency"]
    if not latency:
        return "not measured"
    told = latency.get("previous") or latency
    ratio = "" if told["ratio"] is None else f" {told['ratio']:.3f} ({told['ratio_low']:.3f}-{told['ratio_high']:.3f})"
    return f"{latency['provider']} {told['verdict']}{ratio} against {told['against']}"


def commit(target: Target, repository: Repository, store: Store, message: str) -> tuple[str, Step]:
    """The commit that holds the artifact, made where there is none."""
    tracked = [inside(repository, path) for path in store.track(target.root, target.artifact)]
    others = [inside(repository, path) for path in beside(target) if path.exists()]
    if not needs_commit(target, repository, store):
        existing = repository.tag(target.tag)
        found = existing.commit if existing else repository.last_commit_of(tracked)
        if found is None:
            raise ReleaseError(f"{tracked[0]} is neither new nor in any commit", hint="git status")
        _demand_held(target, found)
        return found, Step("commit", SKIPPED, f"{found[:12]} holds it")
    try:
        tree = repository.tree_with([*tracked, *others])
        _demand_held(target, tree)
        made = repository.commit(tree, [*tracked, *others], message)
    except GitFailed as error:
        raise ReleaseError(f"git could not commit: {error}", hint="artifactctl doctor") from None
    return made, Step("commit", DONE, made[:12])


def _demand_held(target: Target, tree: str) -> None:
    """Attributes, filters and rules of git must not have changed a byte or left a file out."""
    if (found := holds(tree, target.artifact)) != "equal":
        message = f"git would not keep {folder.shown(target.artifact)} as it is: what it would commit is {found}"
        hint = f"Look for filters and line ends: git check-attr -a {folder.shown(target.artifact / folder.SUMS)}"
        raise ReleaseError(message, hint=hint)


def tag(target: Target, repository: Repository, commit_id: str, message: str, package: Package) -> Step:
    existing = repository.tag(target.tag)
    find_conflict(target, existing, package.sha256)
    if existing and (existing.commit == commit_id or not _left_behind(target, repository, existing.commit)):
        return Step("tag", SKIPPED, f"{target.tag} is there, with these digests")
    try:
        if existing:
            repository.delete_tag(target.tag)
        repository.create_tag(target.tag, commit_id, message)
    except GitFailed as error:
        raise ReleaseError(f"git could not tag: {error}", hint="artifactctl doctor") from None
    return Step("tag", DONE, f"{target.tag} at {commit_id[:12]}")


def _left_behind(target: Target, repository: Repository, commit_id: str) -> bool:
    """By a rebase, before anyone saw it: only then may a tag be made anew."""
    if not target.remote or repository.is_ancestor(commit_id, "HEAD"):
        return False
    return f"refs/tags/{target.tag}" not in repository.remote_refs(target.remote, f"refs/tags/{target.tag}")


def write_dist(target: Target, package: Package, notes: str) -> Step:
    """Notes, statements, bill of materials and checksums, beside the package."""
    texts = {f"{target.package_name}.md": notes}
    made = statements.of_artifact(target.artifact, target.metadata, package.path.name, package.sha256)
    texts |= {f"{target.package_name}.{suffix}": text for suffix, text in made.items()}
    bom = target.artifact / "bom.cdx.json"
    if bom.is_file():
        texts[f"{target.package_name}.cdx.json"] = bom.read_text(encoding="utf-8")
    folder.keep_out_of_git(target.dist)
    done = [name for name, text in texts.items() if write_once(target.dist / name, text)]
    names = sorted([*texts, package.path.name])
    sums = "".join(f"{folder.digest(target.dist / name)}  {name}\n" for name in names)
    done += [name for name in [f"{target.package_name}.SHA256SUMS"] if write_once(target.dist / name, sums)]
    detail = f"{len(done)} files in {folder.shown(target.dist)}" if done else "all files are there"
    return Step("checksums", DONE if done else SKIPPED, detail)


def write_once(path: Path, text: str) -> bool:
    """Whether it was written; a file that says something else is a conflict."""
    if path.exists():
        if path.read_bytes() != text.encode():
            raise Conflict(f"{folder.shown(path)} is there and says something else", hint="Move it away and run again.")
        return False
    folder.write_whole(path, text)
    return True
