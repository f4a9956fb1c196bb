"""Puts the commit that a package is built from into it: `init --workflow` pins the workflow to just that."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "artifactctl/_data/commit"


class StampHook(BuildHookInterface[Any]):
    """A package that is built from an unpacked sdist has the stamp in it; one without git has none."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        words = ["git", "-C", self.root, "rev-parse", "--verify", "HEAD"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            self._made = tempfile.TemporaryDirectory()
            stamp = Path(self._made.name, "commit")
            stamp.write_text(done.stdout, encoding="utf-8")
            build_data["force_include"][str(stamp)] = PLACE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if made := getattr(self, "_made", None):
            made.cleanup()
