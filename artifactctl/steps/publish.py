"""A release and its remote: what others have published, and the push. What is published wins over what is only here."""

from __future__ import annotations

from pathlib import Path

from artifactctl import folder
from artifactctl.errors import ReleaseError
from artifactctl.git.repository import GitFailed, Repository
from artifactctl.steps.package import Package
from artifactctl.steps.preflight import Target, branch_lags, find_conflict
from artifactctl.steps.release import DONE, OVERTAKEN, SKIPPED, Step
from artifactctl.stores import Store

PREFIX, INTENT = "artifactctl-", ".unpushed"


def overtaken(target: Target, repository: Repository, *, dry_run: bool) -> Step | None:
    """Before anything is written: the remote has the same release already, and this branch does not have it.

    Where it has other digests, that is a Conflict. The remote's tag becomes ours.
    """
    try:
        theirs = repository.remote_tag(target.remote or "", target.tag)
    except GitFailed:  # preflight says why
        return None
    if theirs is None:
        return None
    find_conflict(target, theirs, None)
    if not dry_run:
        _adopt(target, repository)
    return None if repository.is_ancestor(theirs.commit, "HEAD") else _overtaken(target, repository)


def intend(target: Target, repository: Repository) -> None:
    """A push that was asked for and has not happened is a half-state that `doctor` names."""
    folder.write_whole(_intent(target, repository), f"{target.remote}\n")


def intents(repository: Repository) -> dict[str, str]:
    """The remote that each was meant for, by the name of the package."""
    files = sorted(repository.common_dir.glob(f"{PREFIX}*{INTENT}"))
    return {
        file.name.removeprefix(PREFIX).removesuffix(INTENT): file.read_text(encoding="utf-8").strip() for file in files
    }


def push(target: Target, repository: Repository, store: Store, package: Package) -> Step:
    """Bytes first, then branch and tag together or not at all."""
    step = _push(target, repository, store, package)
    _intent(target, repository).unlink(missing_ok=True)
    return step


def _intent(target: Target, repository: Repository) -> Path:
    return repository.common_dir / f"{PREFIX}{target.package_name}{INTENT}"


def _push(target: Target, repository: Repository, store: Store, package: Package) -> Step:
    remote, branch, ref = target.remote or "", repository.branch, f"refs/tags/{target.tag}"
    try:
        theirs = repository.remote_refs(remote, ref)
        if theirs.get(ref) == repository.run("rev-parse", ref):
            return _push_branch(target, repository, store)
        if ref not in theirs:
            store.push(target.root, target.artifact, remote)
            heads = [f"HEAD:refs/heads/{branch}"] if branch else []
            new = repository.push(remote, *heads, ref)  # not new: the same commit and tag, made in the same second
            told = f"{remote}: {target.tag}" + (f" and {branch}" if branch else "")
            return Step("push", DONE, told) if new else Step("push", SKIPPED, f"{remote} has {target.tag}")
    except GitFailed as error:
        refused = str(error)
    else:
        refused = ""
    return _find_why(target, repository, package, refused)


def _push_branch(target: Target, repository: Repository, store: Store) -> Step:
    """The tag is there already; what was committed after it may not be."""
    remote, branch = target.remote or "", repository.branch
    if not branch_lags(target, repository, store):
        return Step("push", SKIPPED, f"{remote} has {target.tag}")
    try:
        repository.push(remote, f"HEAD:refs/heads/{branch}")
    except GitFailed as error:
        raise _refusal(remote, branch, str(error)) from None
    return Step("push", DONE, f"{remote}: {branch}, with what belongs to {target.tag}")


def _refusal(remote: str, branch: str | None, said: str) -> ReleaseError:
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason"]
    why = next((line for line in lines if "rejected" in line or "error:" in line), lines[0])
    hint = f"git pull --rebase {remote} {branch}, then run it again: nothing is lost."
    return ReleaseError(f"{remote} refused the push: {why}", hint=hint)


def _find_why(target: Target, repository: Repository, package: Package, said: str) -> Step:
    """Another release may have been faster: with the same digests that is fine, with others a conflict."""
    remote = target.remote or ""
    try:
        theirs = repository.remote_tag(remote, target.tag)
    except GitFailed:
        theirs = None
    if theirs is None:
        raise _refusal(remote, repository.branch, said)
    find_conflict(target, theirs, package.sha256)
    _adopt(target, repository)
    return _overtaken(target, repository)


def _adopt(target: Target, repository: Repository) -> None:
    """Two tags with the same digests: the one that others have."""
    repository.fetch(target.remote or "", f"+refs/tags/{target.tag}:refs/tags/{target.tag}")


def _overtaken(target: Target, repository: Repository) -> Step:
    remote, branch = target.remote, repository.branch
    rest = f"; 'git pull --rebase {remote} {branch}' brings its commit here" if branch else ""
    return Step("push", OVERTAKEN, f"{remote} has {target.tag} with the same digests already{rest}")
