"""Whether there is anything to build: answered from digests alone, before anything heavy is imported."""

from __future__ import annotations

from artifactctl import folder, genuine, yamlfile
from artifactctl.errors import ConfigError
from artifactctl.inputs import is_unchanged
from artifactctl.project import BuildRequest, Say
from artifactctl.versions import folder_name


def find_unchanged(request: BuildRequest, say: Say) -> folder.ArtifactFolder | None:
    """The newest version that is whole and was made from just these inputs."""
    if request.force:
        return None
    for version in reversed(folder.versions(request.home)):
        path = request.home / folder_name(version)
        try:
            found = yamlfile.read(path / folder.METADATA).data
            if not is_unchanged(request.config, request.root, found):
                continue
            if any(entry.get("died") for entry in found["recipe"]["candidates"]):
                continue  # a recipe ran out of time, or crashed: it may not again
            damage = folder.damage(path) or genuine.problems(path, found)
            number, _, recipe = (found[key] for key in ("version", "accuracy_drop", "recipe"))
            damage += [f"recipe.{key} is missing" for key in ("name", "reason", "candidates") if key not in recipe]
        except (ConfigError, KeyError, TypeError) as error:
            damage = [str(error)]
        if not damage:
            return folder.ArtifactFolder(request.config.name, number, path, "unchanged", found)
        say(f"warning: {path.name} is damaged and is left as it is ({damage[0]}); it does not count")
    return None
