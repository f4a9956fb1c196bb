"""Whoever edits validate.py can write every digest anew; it is found all the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import config, folder, genuine, inspection, metadata
from artifactctl.errors import ArtifactDamaged
from artifactctl.folder import VALIDATE
from artifactctl.project import BuildRequest
from artifactctl.resources import template_text
from artifactctl.unchanged import find_unchanged
from tests.conftest import MODELS, ROOT

pytestmark = pytest.mark.xdist_group("built")


def seal(artifact: Path) -> None:
    """What somebody does who knows about metadata.yaml and SHA256SUMS."""
    data = metadata.read(artifact)
    for entry in data["files"]:
        path = artifact / entry["path"]
        entry |= {"sha256": folder.digest(path), "size_bytes": path.stat().st_size}
    (artifact / folder.METADATA).write_text(metadata.dump(data), encoding="utf-8")
    (artifact / folder.SUMS).unlink()
    folder.write_sums(artifact)
    assert folder.damage(artifact) == []
    assert metadata.disagreements(artifact, metadata.read(artifact)) == []


def edit(artifact: Path, change: Callable[[str], str]) -> None:
    text = (artifact / VALIDATE).read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text
    (artifact / VALIDATE).write_bytes(changed.encode())


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


EVIL = "import os; os.system('evil')\n"
CODE = {
    "one character": replaced("def check_integrity", "def check_integrity_"),
    "a passing verdict": replaced("    check_integrity(folder)\n", ""),
    "a comment": replaced("\n# <data>\n", "\n# mine\n# <data>\n"),
    "before the block": replaced("# <data>\n", f"{EVIL}# <data>\n"),
    "right after the block": replaced("# </data>\n", f"# </data>\n{EVIL}"),
    "at the end": lambda text: text + EVIL,
    "a second block": lambda text: text + f"# <data>\n{EVIL}# </data>\n",
    "no block": replaced("# <data>\n", "# data\n"),
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
}
DATA = {
    "a wider bound": lambda text: re.sub(r"('max_abs': )[0-9.e-]+", r"\g<1>1000.0", text, count=1),
    "another version": replaced("'version': 1", "'version': 2"),
    "the same number of another type": replaced("'version': 1", "'version': True"),
    "another provider": replaced("'CUDAExecutionProvider'", "'CPUExecutionProvider'"),
    "one provider less": lambda text: re.sub(r"'webgpu': \{.*?\},\s*('coreml')", r"\1", text, flags=re.DOTALL),
    "fewer keys": lambda text: re.sub(r"'version': 1,\s*", "", text, count=1),
    "one more key": replaced("DATA: dict[str, Any] = {", "DATA: dict[str, Any] = {'more': 1,"),
    "code in the block": replaced("# </data>\n", f"{EVIL}# </data>\n"),
    "code before the data": replaced("# <data>\n", f"# <data>\n{EVIL}"),
    "code behind the data": replaced("\n# </data>\n", f"; {EVIL}# </data>\n"),
    "code as a value": replaced("'version': 1", "'version': __import__('os').getpid()"),
    "code behind a carriage return": replaced("\n# </data>\n", f"  #\r{EVIL}# </data>\n"),
    "code behind a form feed": replaced("\n# </data>\n", f"\n\f{EVIL}# </data>\n"),
    "a comment in the block": replaced("\n# </data>\n", "  # reviewed\n# </data>\n"),
    "text that is no Python": replaced("DATA: dict[str, Any] = {", "DATA: dict[str, Any] = {{"),
    "a very deep value": replaced("'version': 1", f"'version': {'[' * 5000}{']' * 5000}"),
    "another annotation": replaced("DATA: dict[str, Any]", "DATA: print('evil')"),
    "a list": lambda text: metadata.DATA_BLOCK.sub("# <data>\nDATA: dict[str, Any] = []\n# </data>\n", text),
    "a plan that is a number": lambda text: re.sub(r"'plan': \{", "'plan': 7, 'x': {", text),
}


@pytest.mark.parametrize("kind", [*CODE, *DATA])
def test_an_edit_is_found_whatever_was_sealed_again(artifact: Path, kind: str) -> None:
    edit(artifact, (CODE | DATA)[kind])
    seal(artifact)
    with pytest.raises(ArtifactDamaged, match=r"validate\.py was edited"):
        inspection.whole_artifact(artifact)


def test_metadata_that_was_edited_alone(artifact: Path) -> None:
    """A wider bound in metadata.yaml, which verify would believe: validate.py still has the old one."""
    data = metadata.read(artifact)
    data["equivalence"]["bounds"]["default"]["max_abs"] = 1000.0
    (artifact / folder.METADATA).write_text(metadata.dump(data), encoding="utf-8")
    seal(artifact)
    with pytest.raises(ArtifactDamaged, match=r"its data is not what metadata\.yaml says"):
        inspection.whole_artifact(artifact)


def test_an_edited_version_is_never_called_unchanged(artifact: Path, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    [(project, model)] = config.select(None, (str(tmp_path / "mlp.onnx"),), tmp_path)
    request, said = BuildRequest(model, project.root, tmp_path), list[str]()
    assert find_unchanged(request, said.append)
    edit(artifact, lambda text: text + EVIL)
    seal(artifact)
    assert find_unchanged(request, said.append) is None
    assert "validate.py was edited" in said[0]


def test_a_file_that_cannot_be_read(artifact: Path) -> None:
    data = metadata.read(artifact)
    (artifact / VALIDATE).write_bytes(b"\xff\xfe")
    assert "cannot be read" in genuine.problems(artifact, data)[0]


def test_whitespace_is_the_writers_business(artifact: Path) -> None:
    """Another Python lays the same data out in another way."""
    data = metadata.read(artifact)
    block = f"# <data>\nDATA: dict[str, Any] = {metadata.validate_data(data)!r}\n# </data>\n"
    edit(artifact, lambda text: metadata.DATA_BLOCK.sub(lambda _: block, text))
    assert genuine.problems(artifact, data) == []


def test_a_released_version_is_known_for_ever(artifact: Path) -> None:
    """Its code was another, and it knew less: a provider and a part of the plan."""
    data = metadata.read(artifact)
    older = metadata.validate_data(data)
    older["providers"] = {"cpu": "CPUExecutionProvider", "gone": "GoneExecutionProvider"}
    del older["plan"]["states"]
    block = f"# <data>\nDATA: dict[str, Any] = {older!r}\n# </data>\n"
    edit(artifact, lambda text: metadata.DATA_BLOCK.sub(lambda _: block, text + "# of an older version\n"))
    text = (artifact / VALIDATE).read_text(encoding="utf-8")
    assert genuine.problems(artifact, data)
    known = {genuine.fingerprint(text, older)}
    assert genuine.problems(artifact, data, known) == []
    edit(artifact, replaced("'version': 1", "'version': 2"))
    assert genuine.problems(artifact, data, known)
    edit(artifact, replaced("'version': 2", "'version': 1"))
    edit(artifact, replaced("'gone': 'Gone", "'gone': 'Evil"))
    assert genuine.problems(artifact, data, known)


def test_every_release_is_in_the_history(built: Path) -> None:
    """CHANGELOG.md says what is released; CONTRIBUTING.md what to do about it."""
    data = metadata.validate_data(metadata.read(built))
    mark = genuine.fingerprint(template_text(VALIDATE), data)
    headings = re.findall(r"^## (\S+)(.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = {version for version, remark in headings if "not released" not in remark}
    missing = released - set(genuine.released().values())
    assert not missing, f"add to templates/validate.history, at the tag of {missing}: {mark}  VERSION"
    assert all(re.fullmatch("[0-9a-f]{64}", line) for line in genuine.released())
