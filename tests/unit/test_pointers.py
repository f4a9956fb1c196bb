"""What counts as a pointer of git-lfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl.pointers import LONGEST, Pointer, parse, pointer_in

OID = "a" * 64
TEXT = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 12345\n".encode()


def test_a_pointer() -> None:
    assert parse(TEXT) == Pointer(OID, 12345, len(TEXT))
    assert str(parse(TEXT)) == "a 130-byte pointer file of git-lfs"
    extended = TEXT.replace(b"oid", b"ext-0-foo sha256:" + b"b" * 64 + b"\noid", 1)
    assert parse(extended) == Pointer(OID, 12345, len(extended))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x08\x07", TEXT[:-1], TEXT + b"x", TEXT.replace(b"v1", b"v9"), TEXT.replace(b"sha256", b"md5"),
        TEXT.replace(b"aaaa", b"AAAA"), TEXT.replace(b"12345", b"many"), TEXT.replace(b"\n", b"\r\n"), TEXT * 20,
    ],
)  # fmt: skip
def test_no_pointer(content: bytes, tmp_path: Path) -> None:
    assert parse(content) is None
    (tmp_path / "file").write_bytes(content)
    assert pointer_in(tmp_path / "file") is None


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(LONGEST)
    assert pointer_in(tmp_path / "large") is None
    assert pointer_in(tmp_path / "missing") is None
    assert pointer_in(tmp_path) is None
