"""Whether there is anything to build: answered from digests alone, before anything heavy is imported."""

from __future__ import annotations

from artifactctl import folder, yamlfile
from artifactctl.errors import ConfigError
from artifactctl.inputs import is_unchanged
from artifactctl.project import BuildRequest, Say


def find_unchanged(request: BuildRequest, say: Say) -> folder.ArtifactFolder | None:
    """The latest version, when it is whole and was made from just these inputs."""
    newest = folder.latest(request.home)
    if newest is None or request.force:
        return None
    try:
        found = yamlfile.read(newest / folder.METADATA).data
        if not is_unchanged(request.config, request.root, found):
            return None
        damage = folder.damage(newest)
        version, _, recipe = (found[key] for key in ("version", "accuracy_drop", "recipe"))
        damage += [f"recipe.{key} is missing" for key in ("name", "reason", "candidates") if key not in recipe]
    except (ConfigError, KeyError, TypeError) as error:
        damage = [str(error)]
    if damage:
        say(f"warning: {newest.name} is damaged and is left as it is ({damage[0]}); a new version is built")
        return None
    return folder.ArtifactFolder(request.config.name, version, newest, "unchanged", found)
