"""A repository: what it holds, and the few things that a release does to it. The only user of GitPython."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from artifactctl.errors import NotAvailable, ReleaseError
from artifactctl.tags import Tag

if TYPE_CHECKING:
    import git

LOCK_PATIENCE_S = 10.0  # a git that outlived its parent needs a moment to finish
_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",  # a folder may be called [x]
}
_ADD = ("-c", "core.safecrlf=false", "add", "--")  # the artifact's bytes are compared; the rest is ours
_FIELDS = ("%(refname:strip=2)", "%(objecttype)", "%(*objectname)", "%(taggerdate:unix)", "%(contents)")


class GitFailed(Exception):
    """git said no; the text is what it said. What nobody expected leaves the repository as a ReleaseError."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class Repository:
    """Opened with `open_repository`; close it, or use it as a context."""

    def __init__(self, repository: git.Repo) -> None:
        self._repository = repository
        self.root = Path(str(repository.working_tree_dir))
        self.git_dir = Path(repository.git_dir)  # of this working tree
        self.common_dir = Path(repository.common_dir)  # of all working trees: its refs and objects

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._repository.close()
        if isinstance(error, GitFailed):
            raise ReleaseError(f"git failed: {error}", hint="Mend what git says, and run it again.") from None

    def run(self, *words: str, env: Mapping[str, str] | None = None, given: str | None = None) -> str:
        """One git command; its output. `given` is for its stdin."""
        with _stdin(given) as stream:
            return str(self._execute(words, env, istream=stream))

    def read_bytes(self, *words: str) -> bytes:
        found = self._execute(words, None, stdout_as_string=False, strip_newline_in_stdout=False)
        assert isinstance(found, bytes)
        return found

    def write_to(self, file: IO[bytes], *words: str) -> None:
        self._execute(words, None, output_stream=file)

    def _execute(self, words: Sequence[str], env: Mapping[str, str] | None, **options: Any) -> Any:
        """Waits for a lock that another git holds."""
        import git

        deadline = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                return self._repository.git.execute(["git", *words], env={**_QUIET, **(env or {})}, **options)
            except git.GitCommandError as error:
                said = "\n".join(filter(None, (_plain(error.stderr), _plain(error.stdout))))
                if ".lock" in said and "File exists" in said and time.monotonic() < deadline:
                    if stream := options.get("istream"):
                        stream.seek(0)
                    time.sleep(0.1)
                    continue
                status = error.status if isinstance(error.status, int) else 0
                raise GitFailed(said or f"git {words[0]} failed", status) from None

    def _found(self, *words: str) -> str | None:
        try:
            return self.run(*words)
        except GitFailed:
            return None

    @property
    def head(self) -> str | None:
        return self.commit_at("HEAD")

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

    def ignored(self, *paths: str) -> list[str]:
        """Those that a rule keeps out of the repository; what is in the index already is not kept out."""
        plain = {"GIT_LITERAL_PATHSPECS": "0"}  # it refuses to work with it
        try:
            return self.run("check-ignore", "-z", "--stdin", given="\0".join(paths), env=plain).split("\0")
        except GitFailed as error:
            if error.status != 1:
                raise
            return []

    def setting(self, key: str) -> str | None:
        return self._found("config", "--get", key) or None

    def commit_at(self, name: str) -> str | None:
        return self._found("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")

    def object_at(self, commit: str, path: str) -> str | None:
        """The id of a tree or a blob; equal ids are equal bytes."""
        return self._found("rev-parse", "--verify", "--quiet", f"{commit}:{path}")

    def last_commit_of(self, paths: Sequence[str]) -> str | None:
        return self._found("rev-list", "-1", "HEAD", "--", *paths) or None  # `log` may show signatures too

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

    def tag_names(self) -> list[str]:
        """Of all tags, lightweight ones too."""
        return self.run("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").split("\n")

    def remote_tag(self, remote: str, name: str) -> Tag | None:
        """As the remote has it; no ref of this repository is changed. One without a message has none."""
        found = self.remote_refs(remote, f"refs/tags/{name}").get(f"refs/tags/{name}")
        if found is None:
            return None
        self.fetch(remote, f"refs/tags/{name}")
        text = self.run("cat-file", "-p", found) if self.run("cat-file", "-t", found) == "tag" else ""
        return Tag(name, self.run("rev-parse", f"{found}^{{}}"), text.partition("\n\n")[2], 0)

    def has_ref(self, name: str) -> bool:
        return self._found("rev-parse", "--verify", "--quiet", name) is not None

    def tree_with(self, paths: Sequence[str]) -> str:
        """HEAD with just these paths as they are on the disk; what else is staged is left alone."""
        old = self.head
        own = {"GIT_INDEX_FILE": str(self.git_dir / f"artifactctl-{os.getpid()}.index")}
        try:
            if old:
                self.run("read-tree", old, env=own)
            self.run(*_ADD, *paths, env=own)
            return self.run("write-tree", env=own)
        finally:
            Path(own["GIT_INDEX_FILE"]).unlink(missing_ok=True)

    def commit(self, tree: str, paths: Sequence[str], message: str) -> str:
        """On top of HEAD. The branch moves in one step; where HEAD has this tree, a killed run has made the commit."""
        old, branch = self.head, self.branch
        made = old if old and tree == self.object_at(old, "") else self._commit_tree(tree, old, message)
        if made != old:
            self.run("update-ref", "-m", "commit: artifactctl release", f"refs/heads/{branch}", made, old or "0" * 40)
        self.run(*_ADD, *paths)  # the index of the working tree follows
        return made

    def _commit_tree(self, tree: str, parent: str | None, message: str) -> str:
        signed = ["-S"] if self._found("config", "--type=bool", "commit.gpgsign") == "true" else []
        parents = ["-p", parent] if parent else []
        # whatever i18n.commitEncoding says, this is what the message is in
        words = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", *signed, tree, *parents, "-F", "-")
        return self.run(*words, given=message)

    def create_tag(self, name: str, commit: str, message: str) -> None:
        signed = ["-s"] if self._found("config", "--type=bool", "tag.gpgsign") == "true" else ["-a"]
        self.run("tag", *signed, "--cleanup=verbatim", "-F", "-", name, commit, given=message)

    def delete_tag(self, name: str) -> None:
        self.run("tag", "-d", name)

    def remotes(self) -> list[str]:
        return self.run("remote").split()

    def local_remotes(self) -> dict[str, Path]:
        """Those that are bare repositories on this machine."""
        found = {}
        for name in self.remotes():
            url = self.setting(f"remote.{name}.url") or ""
            place = self.root / url.removeprefix("file://")
            if (place / "refs").is_dir():
                found[name] = place
        return found

    def default_remote(self) -> str | None:
        """The branch's own, else `origin`, else the only one."""
        own = self._found("config", f"branch.{self.branch}.remote") if self.branch else None
        known = self.remotes()
        return own or ("origin" if "origin" in known else known[0] if len(known) == 1 else None)

    def remote_refs(self, remote: str, *patterns: str) -> dict[str, str]:
        """Names and ids that the remote has; raises GitFailed where it cannot be reached."""
        lines = self.run("ls-remote", "--", remote, *patterns).splitlines()
        return {name: value for value, _, name in (line.partition("\t") for line in lines)}

    def fetch(self, remote: str, *refs: str) -> None:
        self.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote, *refs)

    def push(self, remote: str, *refs: str) -> bool:
        """All of them or none, and nothing else. Whether any was new to the remote."""
        said = self.run("push", "--porcelain", "--atomic", "--no-follow-tags", "--", remote, *refs)
        return any(line.startswith("*\t") for line in said.splitlines())


def git_version() -> str:
    return ".".join(str(part) for part in _library().Git().version_info)


def _library() -> Any:
    try:
        import git
    except ImportError as error:  # GitPython refuses to load where there is no git
        raise NotAvailable(f"git cannot be used: {str(error).splitlines()[0]}", hint="Install git.") from None
    return git


def open_repository(place: Path) -> Repository:
    """The one around a place, which need not be there yet."""
    git = _library()
    try:
        there = next(parent for parent in (place, *place.absolute().parents) if parent.is_dir())
        repository = git.Repo(there, search_parent_directories=True)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        hint = "Run 'git init' and commit the project first; releases live in git tags."
        raise ReleaseError(f"{place.name or place} is not in a git repository", hint=hint) from None
    if repository.bare:
        repository.close()
        raise ReleaseError("the repository is bare: it has no files", hint="Run it in a clone.")
    return Repository(repository)


def _plain(told: object) -> str:
    """Without what GitPython puts around it."""
    return str(told).strip().removeprefix("stderr:").removeprefix("stdout:").strip().strip("'").strip()


@contextlib.contextmanager
def _stdin(text: str | None) -> Iterator[IO[bytes] | None]:
    """In a file without a name: a kill leaves nothing behind."""
    if text is None:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file
