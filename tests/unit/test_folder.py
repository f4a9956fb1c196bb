from __future__ import annotations

import hashlib
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import folder
from artifactctl.errors import Conflict


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder with every file an artifact has, and their digests."""
    place = tmp_path / "artifact_v1"
    for name in folder.REQUIRED:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"content of {name}\n")
    folder.write_sums(place)
    return place


def test_versions_are_sorted_by_number_and_nothing_else_counts(tmp_path: Path) -> None:
    for name in ("artifact_v10", "artifact_v2", "artifact_v02", "notes", ".work"):
        (tmp_path / name).mkdir()
    assert folder.versions(tmp_path) == [2, 10]
    assert folder.latest(tmp_path) == tmp_path / "artifact_v10"


def test_a_model_without_versions(tmp_path: Path) -> None:
    assert folder.versions(tmp_path / "none") == []
    assert folder.latest(tmp_path / "none") is None
    assert folder.next_free(tmp_path / "none") == 1
    assert folder.next_free(tmp_path) == 1


def test_a_gap_is_not_filled(tmp_path: Path) -> None:
    for version in (1, 4):
        (tmp_path / f"artifact_v{version}").mkdir()
    assert folder.next_free(tmp_path) == 5


def test_the_sums_are_those_of_sha256sum(whole: Path) -> None:
    lines = (whole / folder.SUMS).read_text().splitlines()
    assert lines == [
        f"{hashlib.sha256((whole / name).read_bytes()).hexdigest()}  {name}" for name in sorted(folder.REQUIRED)
    ]
    folder.write_sums(whole)
    assert (whole / folder.SUMS).read_text().splitlines() == lines


def test_a_whole_folder_has_no_damage(whole: Path) -> None:
    assert folder.damage(whole) == []


def flip_a_bit(place: Path) -> None:
    content = bytearray((place / folder.MODEL).read_bytes())
    content[0] ^= 1
    (place / folder.MODEL).write_bytes(bytes(content))


def link_away(place: Path) -> None:
    target = place.parent / "elsewhere"
    (place / folder.MODEL).rename(target)
    (place / folder.MODEL).symlink_to(target)


def cut_the_sums(place: Path) -> None:
    lines = (place / folder.SUMS).read_text().splitlines(keepends=True)
    (place / folder.SUMS).write_text("".join(line for line in lines if folder.MODEL not in line))
    (place / folder.MODEL).unlink()


def spoil_line_ends(place: Path, end: bytes) -> None:
    """Which str.splitlines would take for the same."""
    (place / folder.SUMS).write_bytes((place / folder.SUMS).read_bytes().replace(b"\n", end))


def upper_sums(place: Path) -> None:
    (place / folder.SUMS).write_bytes((place / folder.SUMS).read_bytes().upper())


def add_line(line: str) -> Callable[[Path], None]:
    def spoil(place: Path) -> None:
        with (place / folder.SUMS).open("a") as sums:
            sums.write(line)

    return spoil


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (flip_a_bit, "model_opt.onnx was changed"),
    "longer": (lambda place: (place / folder.GOLDEN).write_text("more"), "golden.npz was changed"),
    "missing": (lambda place: (place / folder.MODEL).unlink(), "model_opt.onnx is missing"),
    "missing and not listed": (cut_the_sums, "model_opt.onnx is missing"),
    "extra file": (lambda place: (place / "extra.py").write_text(""), "extra.py was added"),
    "extra file below": (lambda place: (place / "evidence" / "x").write_text(""), "evidence/x was added"),
    "dot-file": (lambda place: (place / ".hidden").write_text(""), ".hidden was added"),
    "link for a file": (link_away, "model_opt.onnx is not a plain file"),
    "extra link": (lambda place: (place / "link").symlink_to("README.md"), "link was added"),
    "dangling link": (lambda place: (place / "link").symlink_to("nothing"), "link was added"),
    "link to a folder": (lambda place: (place / "link").symlink_to(".."), "link was added"),
    "short digest": (add_line("abc  README2.md\n"), "SHA256SUMS has a damaged line: 'abc  README2.md'"),
    "no separator": (add_line("what\n"), "SHA256SUMS has a damaged line: 'what'"),
    "listed twice": (add_line(f"{'0' * 64}  README.md\n"), f"SHA256SUMS has a damaged line: '{'0' * 64}  README.md'"),
    "outside": (add_line(f"{'0' * 64}  ../other\n"), "../other is missing"),
    "another line end": (lambda place: spoil_line_ends(place, b"\x0b"), "SHA256SUMS is cut off"),
    "old Mac line ends": (lambda place: spoil_line_ends(place, b"\r"), "SHA256SUMS is cut off"),
    "Windows line ends": (lambda place: spoil_line_ends(place, b"\r\n"), "README.md\r is missing"),
    "capital digits": (upper_sums, "SHA256SUMS has a damaged line: "),
    "no sums": (lambda place: (place / folder.SUMS).unlink(), "SHA256SUMS is missing or unreadable"),
    "sums are not text": (lambda place: (place / folder.SUMS).write_bytes(b"\xff\xfe\x00"), "SHA256SUMS is missing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_named(whole: Path, kind: str) -> None:
    spoil, message = DAMAGE[kind]
    spoil(whole)
    assert any(found.startswith(message) for found in folder.damage(whole)), folder.damage(whole)


def test_a_file_is_named_once(whole: Path) -> None:
    (whole / folder.MODEL).unlink()
    assert folder.damage(whole) == ["model_opt.onnx is missing"]


def test_publishing_is_one_rename(whole: Path, tmp_path: Path) -> None:
    home = tmp_path / "artifacts" / "m"
    before = {name: (whole / name).read_bytes() for name in folder.listing(whole)}
    path = folder.publish(whole, home, 3)
    assert path == home / "artifact_v3"
    assert {name: (path / name).read_bytes() for name in folder.listing(path)} == before
    assert not whole.exists()
    assert list(home.iterdir()) == [path]


def test_permissions_do_not_depend_on_who_builds(whole: Path, tmp_path: Path) -> None:
    (whole / folder.MODEL).chmod(0o600)
    (whole / folder.VALIDATE).chmod(0o777)
    (whole / "evidence").chmod(0o700)
    path = folder.publish(whole, tmp_path / "m", 1)
    modes = {stat.S_IMODE((path / name).stat().st_mode) for name in folder.listing(path)}
    assert modes == {0o644}
    assert stat.S_IMODE((path / "evidence").stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.parametrize("content", [None, "kept"])
def test_an_existing_version_is_never_overwritten(whole: Path, tmp_path: Path, content: str | None) -> None:
    taken = tmp_path / "m" / "artifact_v1"
    taken.mkdir(parents=True)
    if content:
        (taken / "file").write_text(content)
    with pytest.raises(Conflict, match="artifact_v1 exists already"):
        folder.publish(whole, tmp_path / "m", 1)
    assert [path.read_text() for path in taken.iterdir()] == ([content] if content else [])
    assert folder.damage(whole) == []


def test_the_workplace_is_empty_and_goes_away(tmp_path: Path) -> None:
    with folder.workplace(tmp_path, "m") as scratch:
        assert list(scratch.iterdir()) == []
        (scratch / "half-made").write_text("x")
        assert folder.versions(tmp_path) == []
    assert not scratch.exists()
    with pytest.raises(KeyboardInterrupt), folder.workplace(tmp_path, "m") as scratch:
        raise KeyboardInterrupt
    assert not scratch.exists()


def test_the_workplace_removes_what_killed_builds_left_behind(tmp_path: Path) -> None:
    left = tmp_path / folder.WORK / "m@build-dead"
    other = tmp_path / folder.WORK / "m2@build-alive"
    for place in (left, other):
        (place / "artifact").mkdir(parents=True)
    with folder.workplace(tmp_path, "m"):
        assert not left.exists()
        assert other.exists()


def test_two_models_work_side_by_side_whatever_their_names(tmp_path: Path) -> None:
    with folder.workplace(tmp_path, "m.build-2") as other, folder.workplace(tmp_path, "m"):
        assert other.is_dir()


def test_the_workplace_is_not_committed(tmp_path: Path) -> None:
    with folder.workplace(tmp_path, "m"):
        assert (tmp_path / folder.WORK / ".gitignore").read_text() == "*\n"


def test_the_digest_of_a_folder_sees_names_contents_and_links(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "sub").mkdir(parents=True)
    (place / "sub" / "a").write_bytes(b"a")
    (place / "b").write_bytes(b"bb")
    first = folder.content_digest(place)
    assert folder.content_size(place) == 3
    (place / "b").rename(place / "c")
    second = folder.content_digest(place)
    (place / "c").write_bytes(b"cc")
    third = folder.content_digest(place)
    (place / "c").rename(tmp_path / "c")
    (place / "c").symlink_to("../c")
    fourth = folder.content_digest(place)
    assert len({first, second, third, fourth}) == 4
    assert folder.content_digest(tmp_path / "c") == folder.digest(tmp_path / "c")


def test_a_version_that_has_a_tag_is_taken(tmp_path: Path) -> None:
    home = tmp_path / "artifacts" / "m"
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    for name in ("m/artifact_v3", "other/artifact_v8", "x/m/artifact_v9", "v10", "m/artifact_vx"):
        subprocess.run(["git", "tag", name], cwd=tmp_path, check=True)
    assert folder.next_free(home) == 4  # the folder of the model is not there at all
    (home / "artifact_v5").mkdir(parents=True)
    assert folder.next_free(home) == 6
    assert folder.next_free(tmp_path / "artifacts" / "none") == 1
