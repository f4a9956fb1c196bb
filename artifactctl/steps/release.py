"""The steps of a release. Each observes first: equal -> skip, absent -> do, different -> Conflict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import baselines, cells, folder, jsontext, statements, tags
from artifactctl.errors import Conflict, ReleaseError
from artifactctl.git.repository import GitFailed, Repository
from artifactctl.records import Session, Timing
from artifactctl.steps.package import Package
from artifactctl.steps.preflight import Target, inside, needs_commit
from artifactctl.stores import Store
from artifactctl.tags import Tag

DONE, SKIPPED, PLANNED = "done", "skipped", "planned"
OVERTAKEN = "overtaken"  # someone else published the same meanwhile


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
        return "released" if any(step.status == DONE for step in self.steps) else "unchanged"


def planned(target: Target, repository: Repository, store: Store) -> tuple[Step, ...]:
    """What a run would do, from what is there."""
    there = repository.tag(target.tag)
    exists = (target.dist / f"{target.package_name}.zip").exists()
    sums = (target.dist / f"{target.package_name}.SHA256SUMS").exists()
    plan = [
        ("package", exists, f"{folder.shown(target.dist)}/{target.package_name}.zip"),
        ("commit", not needs_commit(target, repository, store), subject(target.metadata)),
        ("tag", there is not None, target.tag),
        ("checksums", sums, f"{target.package_name}.SHA256SUMS and what it lists"),
    ]
    if target.remote:
        ref = f"refs/tags/{target.tag}"
        plan.append(("push", ref in repository.remote_refs(target.remote, ref), f"{target.remote}: {target.tag}"))
    return tuple(Step(name, SKIPPED if there_already else PLANNED, detail) for name, there_already, detail in plan)


def published_digest(target: Target, repository: Repository) -> str | None:
    """Of the package, as its tag has it."""
    existing = repository.tag(target.tag)
    said = tags.parse_trailers(existing.message) if existing else {}
    return said.get("Artifact-Package-Digest", "").removeprefix("sha256:") or None


def packaged(package: Package) -> Step:
    return Step("package", DONE if package.status == "written" else SKIPPED, folder.shown(package.path))


def write_baseline(target: Target) -> Step:
    """What was measured when it was built, on the machine that it was built on."""
    provider = target.metadata["session"]["provider"]
    evidence = read_evidence(target.artifact, provider)
    name = folder.shown(target.baseline)
    if not evidence or not target.metadata["latency"] or "machine" not in evidence:
        return Step("baseline", SKIPPED, "the artifact holds no measurement of a known machine")
    session = Session(**{**target.metadata["session"], "placement": None})
    timing = Timing(**target.metadata["latency"]["candidate"])
    artifact = {"version": target.version, "sha256": target.digest}
    made = baselines.content(target.model, artifact, timing, evidence["machine"], session)
    if baselines.read(target.baseline) == json.loads(json.dumps(made)):
        return Step("baseline", SKIPPED, f"{name} is of this version already")
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
    beside = [inside(repository, path) for path in (cells.folder_of(target.artifact), target.baseline) if path.exists()]
    if not needs_commit(target, repository, store):
        found = repository.last_commit_of(tracked)
        if found is None:
            raise ReleaseError(f"{tracked[0]} is neither new nor in any commit", hint="git status")
        return found, Step("commit", SKIPPED, f"{found[:12]} holds it")
    try:
        made = repository.commit([*tracked, *beside], message)
    except GitFailed as error:
        raise ReleaseError(f"git could not commit: {error}", hint="artifactctl doctor") from None
    return made, Step("commit", DONE, made[:12])


def find_conflict(target: Target, existing: Tag | None, package: Package | None) -> None:
    """A released version is never changed: a tag with other digests ends it."""
    if existing is None:
        return
    said = tags.parse_trailers(existing.message)
    mine = {"Artifact-Digest": target.digest} | ({"Artifact-Package-Digest": package.sha256} if package else {})
    for key, digest in mine.items():
        if said.get(key) != f"sha256:{digest}":
            message = f"the tag {target.tag} has {key} {said.get(key, 'none')}, this artifact sha256:{digest}"
            raise Conflict(message, hint="A released version is never changed: build and release the next one.")


def tag(target: Target, repository: Repository, commit_id: str, message: str, package: Package) -> Step:
    existing = repository.tag(target.tag)
    find_conflict(target, existing, package)
    if existing and repository.is_ancestor(existing.commit, "HEAD"):
        return Step("tag", SKIPPED, f"{target.tag} is there, with these digests")
    try:
        if existing:  # of a commit that a rebase has left behind; it was never published, or the remote would have it
            repository.delete_tag(target.tag)
        repository.create_tag(target.tag, commit_id, message)
    except GitFailed as error:
        raise ReleaseError(f"git could not tag: {error}", hint="artifactctl doctor") from None
    return Step("tag", DONE, f"{target.tag} at {commit_id[:12]}")


def write_dist(target: Target, package: Package, notes: str) -> Step:
    """Notes, statements, bill of materials and checksums, beside the package."""
    texts = {f"{target.package_name}.md": notes}
    made = statements.of_artifact(target.artifact, target.metadata, package.path.name, package.sha256)
    texts |= {f"{target.package_name}.{suffix}": text for suffix, text in made.items()}
    bom = target.artifact / "bom.cdx.json"
    if bom.is_file():
        texts[f"{target.package_name}.cdx.json"] = bom.read_text(encoding="utf-8")
    ignore = target.dist / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    done = [name for name, text in texts.items() if write_once(target.dist / name, text)]
    names = sorted([*texts, package.path.name])
    sums = "".join(f"{folder.digest(target.dist / name)}  {name}\n" for name in names)
    done += [name for name in [f"{target.package_name}.SHA256SUMS"] if write_once(target.dist / name, sums)]
    detail = f"{len(done)} files in {folder.shown(target.dist)}" if done else "all files are there"
    return Step("checksums", DONE if done else SKIPPED, detail)


def write_once(path: Path, text: str) -> bool:
    """Whether it was written; a file that says something else is a conflict."""
    data = text.encode()
    if path.exists():
        if path.read_bytes() != data:
            raise Conflict(f"{folder.shown(path)} is there and says something else", hint="Move it away and run again.")
        return False
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)
    return True


def push(target: Target, repository: Repository, store: Store, *, tagged_now: bool) -> Step:
    """Bytes first, then branch and tag together or not at all."""
    remote, branch, ref = target.remote or "", repository.branch, f"refs/tags/{target.tag}"
    try:
        theirs = repository.remote_refs(remote, ref)
        if theirs.get(ref) == repository.run("rev-parse", ref):
            return Step("push", SKIPPED, f"{remote} has {target.tag}")
        if ref in theirs:
            demand_equal_remote(target, repository, remote, withdraw=tagged_now)
            return _overtaken(target, remote, branch)
        store.push(target.root, target.artifact, remote)
        heads = [f"HEAD:refs/heads/{branch}"] if branch else []
        repository.push(remote, *heads, ref)
    except GitFailed as error:
        _explain_refusal(target, repository, remote, str(error), withdraw=tagged_now)
        return _overtaken(target, remote, branch)
    return Step("push", DONE, f"{remote}: {target.tag}" + (f" and {branch}" if branch else ""))


def _overtaken(target: Target, remote: str, branch: str | None) -> Step:
    rest = f"; 'git pull --rebase {remote} {branch}' drops the commit that was made here" if branch else ""
    return Step("push", OVERTAKEN, f"{remote} has {target.tag} with the same digests already{rest}")


def _explain_refusal(target: Target, repository: Repository, remote: str, said: str, *, withdraw: bool) -> None:
    """Another release may have been faster: with the same digests that is fine, with others a conflict."""
    ref = f"refs/tags/{target.tag}"
    try:
        there = ref in repository.remote_refs(remote, ref)
    except GitFailed:
        there = False
    if there:
        demand_equal_remote(target, repository, remote, withdraw=withdraw)
        return
    lines = [line for line in said.splitlines() if line.strip()]
    why = next((line for line in lines if "rejected" in line or "error:" in line), lines[0] if lines else "no reason")
    hint = f"git pull --rebase {remote} {repository.branch}, then run it again: nothing is lost."
    raise ReleaseError(f"{remote} refused the push: {why.strip()}", hint=hint)


def demand_equal_remote(target: Target, repository: Repository, remote: str, *, withdraw: bool) -> None:
    """The remote's tag, against this artifact. Ours gives way to the published one, if it was made just now."""
    if withdraw:
        repository.delete_tag(target.tag)
    repository.fetch(remote, f"+refs/tags/{target.tag}:refs/artifactctl/theirs")
    found = repository.run("for-each-ref", "--format=%(contents)", "refs/artifactctl/theirs")
    commit_id = repository.run("rev-parse", "refs/artifactctl/theirs^{commit}")
    theirs = Tag(target.tag, commit_id, found, 0)
    repository.run("update-ref", "-d", "refs/artifactctl/theirs")
    find_conflict(target, theirs, None)
    if withdraw or repository.tag(target.tag) is None:
        repository.fetch(remote, f"refs/tags/{target.tag}:refs/tags/{target.tag}")
