"""Whatever the file system can: the bytes are there, and a copy is a file of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artifactctl.copies import clone, copy, take


@pytest.mark.parametrize("how", [copy, take])
def test_the_bytes_are_those_of_the_source(how: object, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"weights" * 1000)
    assert callable(how)
    how(source, target)
    assert target.read_bytes() == source.read_bytes()


def test_a_copy_has_no_second_name_and_does_not_follow_its_source(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"old")
    copy(source, target)
    assert target.stat().st_nlink == 1
    source.write_bytes(b"new")
    assert target.read_bytes() == b"old"


def test_a_clone_is_whole_or_not_there(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"x" * 5000)
    assert clone(source, target) == target.exists()
    if target.exists():
        assert target.read_bytes() == source.read_bytes()


def test_nothing_is_overwritten_by_a_clone(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"new")
    target.write_bytes(b"kept")
    with pytest.raises(FileExistsError):
        clone(source, target)
    assert target.read_bytes() == b"kept"


def test_what_is_taken_shares_its_bytes_with_the_source(tmp_path: Path) -> None:
    """As blocks where the file system can, else as a second name: no disk holds a large model twice."""
    source, shared, target = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    source.write_bytes(b"weights" * 1000)
    take(source, target)
    assert clone(source, shared) or target.stat().st_ino == source.stat().st_ino or os.name == "nt"
