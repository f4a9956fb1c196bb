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
    """Of the named models, or of all; from tags that were fetched, as a full checkout has them."""
    root, restored = Path.cwd(), []
    for model in models or _configured(root):
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


def _configured(root: Path) -> list[str]:
    try:
        place = config.find(root, None)
        return list(config.load(place).models) if place else []
    except ArtifactctlError:  # the build says it, with its line
        return []
