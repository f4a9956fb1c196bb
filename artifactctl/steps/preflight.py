"""Everything that could stop a release, looked at before anything is written; all problems are told at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import baselines, cells, folder, inspection, ortpackage, tags
from artifactctl.errors import ArtifactDamaged, Conflict, ReleaseError, SourceError
from artifactctl.git.repository import GitFailed, Repository
from artifactctl.project import Project
from artifactctl.steps.package import DIST, why_not_into
from artifactctl.steps.sides import Side, earlier, side_of
from artifactctl.stores import Problem, Store
from artifactctl.tags import Tag
from artifactctl.verdicts import NOT_SLOWER
from artifactctl.versions import folder_name, package_name, parse_reference, tag_name

ASSET_LIMIT = 2 * 2**30  # of a file of a GitHub release


@dataclass(frozen=True, slots=True)
class Target:
    """What is released, and where it lies."""

    model: str
    version: int
    artifact: Path
    metadata: Mapping[str, Any]
    digest: str  # of the artifact's SHA256SUMS, which has all others
    root: Path  # of the project
    providers: tuple[str, ...]
    remote: str | None  # None: nothing is pushed

    @property
    def tag(self) -> str:
        return tag_name(self.model, self.version)

    @property
    def title(self) -> str:
        return f"{self.model} {folder_name(self.version)}"

    @property
    def dist(self) -> Path:
        return self.root / DIST

    @property
    def package_name(self) -> str:
        return package_name(self.model, self.version)

    @property
    def baseline(self) -> Path:
        return baselines.path_of(self.root, self.model, self.metadata["session"]["provider"])


def choose(reference: str, project: Project | None, root: Path, remote: str | None) -> Target:
    """MODEL or MODEL@vN -> the artifact to release: the newest where no version is named."""
    try:
        model, version = parse_reference(reference)
    except ValueError as error:
        raise SourceError(str(error)) from None
    home = root / "artifacts" / model
    built = folder.versions(home)
    if not built or (version is not None and version not in built):
        what = "has no artifact" if not built else f"has no version {version}"
        hint = f"Build it: artifactctl build {model}" if not built else f"It has: {', '.join(map(str, built))}."
        raise SourceError(f"{model} {what} in {folder.shown(home)}", hint=hint)
    number = version or built[-1]
    artifact = home / folder_name(number)
    metadata = inspection.whole_artifact(artifact)
    if metadata["model_name"] != model:
        message = f"{folder.shown(artifact)} is an artifact of {metadata['model_name']!r}, not of {model!r}"
        raise ArtifactDamaged(message, hint="A folder that was copied or renamed is no version: build it.")
    known = project.models.get(model) if project else None
    providers = known.providers if known else (metadata["session"]["provider"],)
    return Target(model, number, artifact, metadata, folder.digest(artifact / folder.SUMS), root, providers, remote)


def inside(repository: Repository, path: Path) -> str:
    """A path as git names it."""
    try:
        return path.resolve().relative_to(repository.root.resolve()).as_posix()
    except ValueError:
        message = f"{folder.shown(path)} is not inside the repository"
        raise ReleaseError(message, hint="Keep artifacts/ in the repository that is released from.") from None


def beside(target: Target) -> tuple[Path, ...]:
    """What is committed with an artifact, where it is there: proofs on other providers, its signature, its numbers."""
    signature = target.artifact.with_name(f"{target.artifact.name}.sig")
    return cells.folder_of(target.artifact), signature, target.baseline


def own_changes(target: Target, repository: Repository, store: Store) -> tuple[list[str], list[str]]:
    """What differs from HEAD: what a release may add or change, and everything else."""
    names = _own_names(target, repository, store)
    below = tuple(f"{name}/" for name in names)
    changed = repository.changed()
    own = [path for path in changed if path in names or path.startswith(below)]
    return own, [path for path in changed if path not in set(own)]


def _own_names(target: Target, repository: Repository, store: Store) -> set[str]:
    belongings = [*store.belongings(target.artifact), target.artifact, *beside(target)]
    return {inside(repository, file) for file in belongings}


def find_conflict(target: Target, existing: Tag | None, package_sha256: str | None) -> None:
    """A released version is never changed: a tag with other digests ends it."""
    if existing is None:
        return
    said = tags.parse_trailers(existing.message)
    mine = {"Artifact-Digest": target.digest} | ({"Artifact-Package-Digest": package_sha256} if package_sha256 else {})
    for key, digest in mine.items():
        if said.get(key) != f"sha256:{digest}":
            message = f"the tag {target.tag} has {key} {said.get(key, 'none')}, this artifact sha256:{digest}"
            raise Conflict(message, hint="A released version is never changed: build and release the next one.")


def demand_tag_free_or_equal(target: Target, repository: Repository) -> None:
    existing = repository.tag(target.tag)
    if existing is None and repository.has_ref(f"refs/tags/{target.tag}"):
        message = f"the tag {target.tag} is there without a message, so nothing says which bytes it means"
        raise Conflict(message, hint=f"If it was never pushed: git tag -d {target.tag}. Else release the next version.")
    find_conflict(target, existing, None)


def demand_ready(target: Target, repository: Repository, store: Store, *, resume: bool) -> None:
    """Preflight: nothing is written where anything is in the way."""
    found = problems(target, repository, store)
    if resume and not begun(target, repository):
        found.append(Problem(f"no release of {target.title} was begun", f"artifactctl release {target.model}"))
    if found:
        lines = "\n".join(f"  {problem.message}" for problem in found)
        hint = "\n".join(dict.fromkeys(problem.hint for problem in found))
        raise ReleaseError(f"{target.title} cannot be released yet\n{lines}", hint=hint)


def begun(target: Target, repository: Repository) -> bool:
    """Whether an earlier run left anything of this release behind."""
    held = repository.object_at("HEAD", inside(repository, target.artifact))
    return bool(held or repository.tag(target.tag) or list(target.dist.glob(f"{target.package_name}.*")))


def previous_release(target: Target, scratch: Path) -> Side | None:
    """The version that it is told against: the one before it that can be had."""
    home = target.artifact.parent
    for path, label in earlier(home, target.model, target.version, scratch, oldest_first=False):
        return side_of(path, label)
    return None


def problems(target: Target, repository: Repository, store: Store) -> list[Problem]:
    found = _state_problems(target, repository, store) + _proof_problems(target) + _dist_problems(target)
    found += store.preflight(target.root, target.artifact, push=target.remote is not None)
    if target.remote:
        found += _remote_problems(target, repository)
    return found


def _state_problems(target: Target, repository: Repository, store: Store) -> list[Problem]:
    found = []
    if problem := repository.identity_problem:
        hint = "git config user.name NAME && git config user.email ADDRESS"
        found.append(Problem(f"git does not know who you are: {problem}", hint))
    if repository.shallow:
        found.append(
            Problem("the clone is shallow, so earlier releases are not all here", "git fetch --unshallow --tags")
        )
    made = f"{inside(repository, target.dist)}/"
    parts = {inside(repository, folder.part_of(path)) for path in (*store.belongings(target.artifact), *beside(target))}
    _, others = own_changes(target, repository, store)
    others = [path for path in others if not path.startswith(made) and path not in parts]
    if others:
        named = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        found.append(Problem(f"the working tree has other changes: {named}", "git commit, git stash, or ignore them"))
    if repository.branch is None and needs_commit(target, repository, store):
        message = "HEAD is detached, and the artifact is not committed yet"
        found.append(Problem(message, "git switch BRANCH, then run it again"))
    ignored = repository.ignored(*(inside(repository, path) for path in beside(target)))
    found += [
        Problem(f"{path} is ignored by git, so it cannot be committed", f"git check-ignore -v {path}")
        for path in ignored
    ]
    return found + _name_problems(target, repository.tag_names(), "")


def _name_problems(target: Target, names: Iterable[str], where: str) -> list[Problem]:
    """A ref is a file and its parts are folders: `mlp` and `mlp/…` cannot both be."""
    blocking = [name for name in names if name == target.model or name.startswith(f"{target.tag}/")]
    return [
        Problem(
            f"a tag {name!r}{where} stands in the way of {target.tag}: git cannot have both",
            f"git tag -m moved {name.replace('/', '-')}-old {name} && git tag -d {name}",
        )
        for name in blocking[:1]
    ]


def needs_commit(target: Target, repository: Repository, store: Store) -> bool:
    return bool(own_changes(target, repository, store)[0])


def branch_lags(target: Target, repository: Repository, store: Store) -> bool:
    """Whether the remote lacks the last commit of what is released: a proof or a signature may come after the tag."""
    last = repository.last_commit_of(sorted(_own_names(target, repository, store)))
    heads = f"refs/heads/{repository.branch}"
    theirs = [f"refs/tags/{target.tag}", *repository.remote_refs(target.remote or "", heads).values()]
    return bool(last and repository.branch) and not any(repository.is_ancestor(str(last), known) for known in theirs)


def _proof_problems(target: Target) -> list[Problem]:
    found = []
    for provider in target.providers:
        if why := cells.why_missing(target.artifact, target.metadata, provider):
            shown = folder.shown(target.artifact)
            hint = f"artifactctl verify {shown} --provider {provider} --save-evidence"
            found.append(Problem(f"a required provider is not proved: {why}", hint))
    return found


def _dist_problems(target: Target) -> list[Problem]:
    if why := why_not_into(target.dist):
        return [Problem(why, f"Move it away, or make it writable: {folder.shown(target.dist)}")]
    named = target.dist.glob(f"{target.package_name}.*")
    return [
        Problem(f"{folder.shown(path)} is a folder, and a file of the release goes there", "Move it away.")
        for path in sorted(named)
        if path.is_dir() and path.suffix != ortpackage.SUFFIX
    ]


def warnings(target: Target) -> tuple[str, ...]:
    found = []
    previous = (target.metadata["latency"] or {}).get("previous")
    if previous and previous["verdict"] != NOT_SLOWER:
        found.append(f"speed against {previous['against']} is {previous['verdict']}: {previous['reason']}")
    size = sum(file.stat().st_size for file in target.artifact.rglob("*") if file.is_file())
    return (*found, *size_warnings(size, target.metadata["model"]["size_bytes"]))


def size_warnings(folder_bytes: int, model_bytes: int) -> list[str]:
    """A package has the folder, and the model once more in Olive's layout."""
    if folder_bytes + model_bytes < ASSET_LIMIT:
        return []
    return ["the package will be over 2 GiB, which a GitHub release does not take as a file"]


def _remote_problems(target: Target, repository: Repository) -> list[Problem]:
    remote, branch = target.remote or "", repository.branch
    try:
        refs = repository.remote_refs(remote)
    except GitFailed as error:
        said = (str(error).splitlines() or ["no answer"])[0]
        return [Problem(f"the remote {remote!r} cannot be reached: {said}", f"git ls-remote {remote}")]
    found = _name_problems(target, (ref.removeprefix("refs/tags/") for ref in refs), f" of {remote}")
    theirs = refs.get(f"refs/heads/{branch}")
    if theirs and branch and not repository.is_ancestor(theirs, "HEAD"):
        message = f"{remote}/{branch} has moved on: {theirs[:12]} is not part of this branch"
        found.append(Problem(message, f"git pull --rebase {remote} {branch}"))
    return found
