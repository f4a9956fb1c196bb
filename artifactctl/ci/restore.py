"""The newest released version of a model, where the checked-out commit does not have it.

A run that is repeated starts from its old commit. Without it, that run would give a released number to other bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from artifactctl import config, git, stores
from artifactctl.errors import ArtifactctlError
from artifactctl.folder import MODEL
from artifactctl.versions import folder_name


def restore_released(models: Sequence[str]) -> list[Path]:
    """Of the models that are built, by name or file, or of all; from tags that were fetched, as a full checkout has."""
    root, restored = Path.cwd(), []
    for model in _names(root, models):
        home = root / "artifacts" / model
        versions = git.tagged_versions(home, model)
        if not versions or (home / folder_name(versions[-1]) / MODEL).exists():
            continue
        with tempfile.TemporaryDirectory(dir=root) as scratch:
            found = stores.fetch_tagged(home if home.is_dir() else root, model, versions[-1], Path(scratch) / "tagged")
            if found is not None:
                target = home / folder_name(versions[-1])
                target.parent.mkdir(parents=True, exist_ok=True)
                found.rename(target)
                restored.append(target)
    return restored


def _names(root: Path, models: Sequence[str]) -> list[str]:
    try:
        place = config.find(root, None)
        project = config.load(place) if place else None
        return [model.name for _, model in config.select(project, tuple(models), root)]
    except ArtifactctlError:  # the build says it, with its line
        return []
