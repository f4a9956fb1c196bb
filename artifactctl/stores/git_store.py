"""release.store: git. The artifact is committed as it is; meant for small models."""

from __future__ import annotations

from pathlib import Path

from artifactctl import folder, git
from artifactctl.stores import attributes
from artifactctl.stores.contract import Problem

LARGEST_BYTES = 50_000_000  # hosts warn from here on, and GitHub refuses a file of 100 MB


def preflight(root: Path, artifact: Path, *, push: bool = False) -> list[Problem]:
    files = [artifact / name for name in folder.listing(artifact)]
    found = ignored_problems(root, [*belongings(artifact), *files])
    sizes = {file: file.lstat().st_size for file in files}
    large = [file for file, size in sizes.items() if size > LARGEST_BYTES]
    if large:
        elsewhere = set(git.filtered(root, large, "lfs"))  # by attributes of the user's own
        large = [file for file in large if file not in elsewhere]
    if large:
        named = ", ".join(f"{file.name} ({sizes[file] / 1e6:.1f} MB)" for file in large)
        message = (
            f"{named} is too large for git, which keeps every version for ever and takes files of up to 50 MB here;"
            f" {artifact.name} has {sum(sizes.values()) / 1e6:.1f} MB in all"
        )
        found.append(Problem(message, "Set release.store: lfs (git-lfs) or dvc (DVC) in artifactctl.yaml."))
    return found


def ignored_problems(root: Path, paths: list[Path]) -> list[Problem]:
    found = git.ignored(root, paths)
    outer = [path for path in found if not any(parent in found for parent in path.parents)]
    return [
        Problem(
            f"{folder.shown(path)} is ignored by git, so it cannot be committed",
            f"Remove the line that 'git check-ignore -v {folder.shown(path)}' shows.",
        )
        for path in outer
    ]


def belongings(artifact: Path) -> list[Path]:
    return [artifact, attributes.path_of(artifact)]


def track(root: Path, artifact: Path) -> list[Path]:
    attributes.add(artifact, [attributes.AS_IT_IS])
    return belongings(artifact)


def push(root: Path, artifact: Path, remote: str) -> None:
    """`git push` carries everything."""
