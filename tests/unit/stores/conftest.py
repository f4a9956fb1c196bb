"""A repository with an artifact of small files, and git as it is on a fresh machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.stores.place import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty repository. PATH has git and what it needs, and neither git-lfs nor DVC."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Tester\n\temail = tester@example.com\n[init]\n\tdefaultBranch = main\n")
    only = tmp_path / "bin"
    only.mkdir()
    for name in ("git", "sh"):
        (only / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(only))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # what a machine's services and other runs of DVC share
    for level in ("GLOBAL", "SYSTEM"):
        monkeypatch.setenv(f"DVC_{level}_CONFIG_DIR", str(tmp_path / f"dvc-{level}"))
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "dvc-site"))
    found = Place(tmp_path / "project", tmp_path)
    found.root.mkdir()
    found.git("init", "-q")
    return found


@pytest.fixture
def with_dvc(place: Place, dvc_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("PATH", f"{dvc_path}{os.pathsep}{os.environ['PATH']}")
    return place


@pytest.fixture
def with_lfs(place: Place, lfs_path: Path | None, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where there is no git-lfs to be had, `place.lfs` says so."""
    if lfs_path:
        monkeypatch.setenv("PATH", f"{lfs_path}{os.pathsep}{os.environ['PATH']}")
    return place
