"""Whether there is anything to build, or to commit: answered from digests, before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path

from artifactctl import folder, genuine, yamlfile
from artifactctl.errors import ConfigError, Conflict
from artifactctl.git import staged
from artifactctl.inputs import declared_files, differences, is_unchanged
from artifactctl.project import BuildRequest, Say
from artifactctl.versions import folder_name, parse_folder_name


def find_unchanged(request: BuildRequest, say: Say, *, try_again: bool = True) -> folder.ArtifactFolder | None:
    """The newest version that is whole and was made from just these inputs.

    With `try_again`, one of whose recipes ran into the time limit or crashed does not count: another time it may not.
    """
    if request.force:
        return None
    for version in reversed(folder.versions(request.home)):
        path = request.home / folder_name(version)
        try:
            found = yamlfile.read(path / folder.METADATA).data
            if not is_unchanged(request.config, request.root, found):
                continue
            if try_again and any(entry.get("died") for entry in found["recipe"]["candidates"]):
                continue
            damage = folder.damage(path) or genuine.problems(path, found)
            number, _, recipe = (found[key] for key in ("version", "accuracy_drop", "recipe"))
            damage += [f"recipe.{key} is missing" for key in ("name", "reason", "candidates") if key not in recipe]
        except (ConfigError, KeyError, TypeError) as error:
            damage = [str(error)]
        if not damage:
            return folder.ArtifactFolder(request.config.name, number, path, "unchanged", found)
        say(f"warning: {path.name} is damaged and is left as it is ({damage[0]}); it does not count")
    return None


def demand_current(request: BuildRequest, config_path: Path | None, say: Say) -> folder.ArtifactFolder:
    """The version of just these inputs, which the next commit holds as it is; else a Conflict with the line to type."""
    found = find_unchanged(request, say, try_again=False)
    if found is None:
        word = request.config.name if config_path else folder.shown(request.root / request.config.source.target)
        new = request.home / folder_name(folder.next_free(request.home))
        raise _stale(request, f"artifactctl build {word}", staged.add_command(new))
    declared = declared_files(request.config, request.root)
    names = [entry["path"] for entry in found.metadata["source"]["files"]]
    inputs = [declared.get(name, request.root / name) for name in names]
    problems = staged.staged_problems(found.path, [*inputs, *([config_path] if config_path else [])])
    if problems:
        raise Conflict("; ".join(problems), hint=_line(*problems.values()))
    return found


def _stale(request: BuildRequest, *commands: str) -> Conflict:
    """What changed since the newest version."""
    elsewhere = [
        path for path in request.home.glob(f"artifact_v*{folder.DVC_SUFFIX}") if not path.with_suffix("").exists()
    ]
    if elsewhere:
        path = max(elsewhere, key=lambda path: parse_folder_name(path.stem) or 0)
        return Conflict(f"{folder.shown(path.with_suffix(''))} is not here", hint=f"dvc pull {folder.shown(path)}")
    newest = folder.latest(request.home)
    if newest is None:
        return Conflict("it has no artifact yet", hint=_line(*commands))
    try:
        found = yamlfile.read(newest / folder.METADATA).data
        changed = [item.describe() for item in differences(request.config, request.root, found)]
    except (ConfigError, KeyError, TypeError) as error:
        changed = [str(error)]
    since = f"{'; '.join(changed)} since {folder.shown(newest)}"
    damaged = f"{folder.shown(newest)} is damaged: {'; '.join(folder.damage(newest)[:3])}"
    return Conflict(since if changed else damaged, hint=_line(*commands))


def _line(*commands: str) -> str:
    return " && ".join(dict.fromkeys(command for command in commands if command))
