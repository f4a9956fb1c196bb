"""The three rings of import, seen from a fresh interpreter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, clean_environment

WARM = {"yaml", "jsonschema", "git", "rich", "filelock", "psutil"}
HEAVY = {"numpy", "onnx", "onnxruntime", "torch", "olive", "model_signing", "sigstore", "cryptography"}

EVERYTHING = """
import pkgutil, artifactctl
for module in pkgutil.walk_packages(artifactctl.__path__, "artifactctl."):
    if not module.name.startswith(("artifactctl.backends", "artifactctl.__main__")):
        __import__(module.name)
"""


def loaded(code: str, cwd: Path) -> tuple[set[str], str]:
    """The modules that a fresh interpreter has after `code`, and what it printed."""
    report = "\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    printed, _, modules = done.stdout.rstrip().rpartition("\n")
    return set(json.loads(modules)), printed


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("import artifactctl.cli", ""),
        ("from artifactctl.cli import run; assert run(['--help']) == 0", "verify"),
        ("from artifactctl.cli import run; assert run(['--version']) == 0", "artifactctl, version"),
    ],
    ids=["import", "--help", "--version"],
)
def test_start_up_loads_click_and_the_standard_library_only(tmp_path: Path, code: str, shown: str) -> None:
    modules, printed = loaded(code, tmp_path)
    assert shown in printed
    assert not modules & (WARM | HEAVY)
    outside = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    assert {"artifactctl", "click"} <= outside


def test_nothing_heavy_is_loaded_outside_backends(tmp_path: Path) -> None:
    modules, _ = loaded(EVERYTHING, tmp_path)
    assert {"artifactctl.pipeline", "artifactctl.steps.choose", "artifactctl.cli.build"} <= modules
    assert not {name for name in modules if name.startswith("artifactctl.backends.")}
    assert not modules & HEAVY


def test_the_whole_light_side_was_imported(tmp_path: Path) -> None:
    modules, _ = loaded(EVERYTHING, tmp_path)
    package = ROOT / "artifactctl"
    files = {path.relative_to(ROOT).with_suffix("") for path in package.rglob("*.py") if "backends" not in path.parts}
    expected = {".".join(path.parts).removesuffix(".__init__") for path in files} - {"artifactctl.__main__"}
    assert expected <= modules


def test_one_module_uses_gitpython() -> None:
    package = ROOT / "artifactctl"
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import git|from git[. ].*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == {"git/repository.py"}
