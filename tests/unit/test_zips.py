from __future__ import annotations

import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, (1980, 1, 1, 0, 0, 0)),
        (1700000001, (2023, 11, 14, 22, 13, 20)),
        (4354819199, (2107, 12, 31, 23, 59, 58)),
        (4354819200, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_the_time_is_the_nearest_that_a_zip_can_have(tmp_path: Path, seconds: int, expected: zips.Moment) -> None:
    moment = zips.moment(datetime.fromtimestamp(seconds, UTC))
    assert moment == expected
    zips.write(tmp_path / "one.zip", {"a": b"text"}, moment)
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert [entry.date_time for entry in archive.infolist()] == [expected]
