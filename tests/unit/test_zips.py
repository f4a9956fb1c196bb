from __future__ import annotations

import os
import zipfile
from pathlib import Path

from artifactctl import zips


def test_bytes_depend_on_the_members_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    zips.write(tmp_path / "one.zip", {"b/inner": file, "a": b"text"})
    file.chmod(0o600)
    os.utime(file, (1, 1))
    zips.write(tmp_path / "two.zip", {"a": b"text", "b/inner": file})
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.namelist() == ["a", "b/inner"]
        assert archive.testzip() is None
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.read("b/inner") == file.read_bytes()
    assert not list(tmp_path.glob("*.part"))
