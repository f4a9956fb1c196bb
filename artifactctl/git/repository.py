"""A repository that is released from: what it holds, and the few things that are done to it. Uses GitPython only."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from artifactctl.errors import NotAvailable, ReleaseError
from artifactctl.tags import Tag

if TYPE_CHECKING:
    import git

LOCK_PATIENCE_S = 10.0  # a git that outlived its parent needs a moment to finish
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
_FIELDS = ("%(refname:strip=2)", "%(objecttype)", "%(*objectname)", "%(taggerdate:unix)", "%(contents)")


class GitFailed(Exception):
    """git said no; the text is what it said."""


class Repository:
    """Opened with `open_repository`; close it, or use it as a context."""

    def __init__(self, repository: git.Repo) -> None:
        self._repository = repository
        self.root = Path(str(repository.working_tree_dir))
        self.git_dir = Path(repository.git_dir)

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self._repository.close()

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """One git command; its output. Waits for a lock that another git holds."""
        import git

        deadline = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                found = self._repository.git.execute(["git", *words], env={**_QUIET, **(env or {})})
            except git.GitCommandError as error:
                said = str(error.stderr).strip().removeprefix("stderr:").strip().strip("'").strip()
                if ".lock" in said and "File exists" in said and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                raise GitFailed(said or f"git {words[0]} failed") from None
            return str(found)

    def _found(self, *words: str) -> str | None:
        try:
            return self.run(*words)
        except GitFailed:
            return None

    @property
    def head(self) -> str | None:
        return self._found("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    @property
    def branch(self) -> str | None:
        """None where HEAD is detached."""
        return self._found("symbolic-ref", "--quiet", "--short", "HEAD")

    @property
    def shallow(self) -> bool:
        return self.run("rev-parse", "--is-shallow-repository") == "true"

    @property
    def identity_problem(self) -> str | None:
        try:
            self.run("var", "GIT_COMMITTER_IDENT", env={"GIT_TERMINAL_PROMPT": "0"})
        except GitFailed as error:
            return str(error).splitlines()[0]
        configured = all(self._found("config", f"user.{key}") for key in ("name", "email"))
        given = all(os.environ.get(f"GIT_COMMITTER_{key}") for key in ("NAME", "EMAIL"))
        return None if configured or given else "user.name and user.email are not set"

    def changed(self) -> list[str]:
        """Every path that differs from HEAD, untracked files too, relative to the root."""
        words = self.run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames").split("\0")
        return sorted(word[3:] for word in words if word)

    def ignored(self, path: str) -> str | None:
        """The rule that keeps a path out of the repository."""
        found = self._found("check-ignore", "--verbose", "--", path)
        return found.partition("\t")[0] if found else None

    def object_at(self, commit: str, path: str) -> str | None:
        """The id of a tree or a blob; equal ids are equal bytes."""
        return self._found("rev-parse", "--verify", "--quiet", f"{commit}:{path}")

    def last_commit_of(self, paths: Sequence[str]) -> str | None:
        return self._found("log", "-1", "--format=%H", "--", *paths) or None

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self._found("merge-base", "--is-ancestor", older, newer) is not None

    def tags(self, pattern: str = "") -> list[Tag]:
        """The annotated ones; a message may hold anything but NUL."""
        refs = f"refs/tags/{pattern}" if pattern else "refs/tags"
        form = "%00".join(_FIELDS) + "%00%00"
        found = []
        for entry in self.run("for-each-ref", f"--format={form}", refs).split("\0\0"):
            name, *rest = entry.lstrip("\n").split("\0")
            if len(rest) == 4 and rest[0] == "tag":
                found.append(Tag(name, rest[1], rest[3], int(rest[2] or 0)))
        return found

    def tag(self, name: str) -> Tag | None:
        return next((tag for tag in self.tags(name) if tag.name == name), None)

    def has_ref(self, name: str) -> bool:
        return self._found("rev-parse", "--verify", "--quiet", name) is not None

    def commit(self, paths: Sequence[str], message: str) -> str:
        """Just these paths on top of HEAD. The branch moves in one step; what else is staged is left alone."""
        old, branch = self.head, self.branch
        own = {"GIT_INDEX_FILE": str(self.git_dir / f"artifactctl-{os.getpid()}.index")}
        try:
            if old:
                self.run("read-tree", old, env=own)
            self.run("add", "--", *paths, env=own)
            tree = self.run("write-tree", env=own)
        finally:
            Path(own["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        signed = ["-S"] if self._found("config", "--type=bool", "commit.gpgsign") == "true" else []
        parents = ["-p", old] if old else []
        with _file_with(message) as file:
            made = self.run("commit-tree", *signed, tree, *parents, "-F", file)
        self.run("update-ref", "-m", "commit: artifactctl release", f"refs/heads/{branch}", made, old or "0" * 40)
        self.refresh(paths)
        return made

    def refresh(self, paths: Sequence[str]) -> None:
        """The index of the working tree follows."""
        self.run("add", "--", *paths)

    def create_tag(self, name: str, commit: str, message: str) -> None:
        signed = ["-s"] if self._found("config", "--type=bool", "tag.gpgsign") == "true" else ["-a"]
        with _file_with(message) as file:
            self.run("tag", *signed, "--cleanup=verbatim", "-F", file, name, commit)

    def delete_tag(self, name: str) -> None:
        self.run("tag", "-d", name)

    def remotes(self) -> list[str]:
        return self.run("remote").split()

    def default_remote(self) -> str | None:
        """The branch's own, else `origin`, else the only one."""
        own = self._found("config", f"branch.{self.branch}.remote") if self.branch else None
        known = self.remotes()
        return own or ("origin" if "origin" in known else known[0] if len(known) == 1 else None)

    def remote_refs(self, remote: str, *patterns: str) -> dict[str, str]:
        """Names and ids that the remote has; raises GitFailed where it cannot be reached."""
        lines = self.run("ls-remote", remote, *patterns).splitlines()
        return {name: value for value, _, name in (line.partition("\t") for line in lines)}

    def fetch(self, remote: str, *refs: str) -> None:
        self.run("fetch", "--quiet", "--no-tags", remote, *refs)

    def push(self, remote: str, *refs: str) -> None:
        """All of them or none."""
        self.run("push", "--quiet", "--atomic", remote, *refs)


def open_repository(place: Path) -> Repository:
    try:
        import git
    except ImportError as error:  # GitPython refuses to load where there is no git
        raise NotAvailable(f"git cannot be used: {str(error).splitlines()[0]}", hint="Install git.") from None
    try:
        repository = git.Repo(place, search_parent_directories=True)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        hint = "Run 'git init' and commit the project first; releases live in git tags."
        raise ReleaseError(f"{place.name or place} is not in a git repository", hint=hint) from None
    if repository.bare:
        repository.close()
        raise ReleaseError("the repository is bare: it has no files", hint="Run it in a clone.")
    return Repository(repository)


@contextlib.contextmanager
def _file_with(text: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(prefix="artifactctl-", suffix=".msg") as file:
        file.write(text.encode())
        file.flush()
        yield file.name
