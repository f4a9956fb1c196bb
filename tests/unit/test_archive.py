"""A package is unpacked whole, or refused with the member named and nothing written."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from artifactctl import archive, folder, inspection, zips
from artifactctl.errors import ArtifactDamaged
from tests.flow.refusal import contents
from tests.models import hostile

pytestmark = pytest.mark.xdist_group("built")


@pytest.fixture
def members(built: Path) -> dict[str, bytes]:
    """What the package of an artifact has in it, but for the list of digests."""
    inside = {f"{built.name}/{name}": (built / name).read_bytes() for name in folder.listing(built)}
    return {**inside, "models_rank.json": b"[]", "CandidateModels/cpu-cpu/BestCandidateModel_1/metrics.json": b"{}"}


def of_artifact(members: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in members.items() if name.startswith("artifact_v1/")}


@pytest.fixture
def package(members: dict[str, bytes], tmp_path: Path) -> Path:
    path = tmp_path / "mlp-artifact_v1.zip"
    archive.write(path, members)
    return path


def test_what_is_written_is_read_back(package: Path, members: dict[str, bytes], built: Path, tmp_path: Path) -> None:
    assert archive.problems(package) == []
    found = archive.extract(package, tmp_path / "target")
    assert found == tmp_path / "target" / "artifact_v1"
    assert contents(found) == contents(built)
    assert folder.listing(found.parent) == sorted([*of_artifact(members), "SHA256SUMS"])
    listed, problems = folder.parse_sums((found.parent / "SHA256SUMS").read_bytes())
    assert problems == []
    assert listed == {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}


def test_files_and_bytes_give_the_same_package(package: Path, members: dict[str, bytes], built: Path) -> None:
    other = package.with_name("other.zip")
    as_files = {name: built / name.removeprefix("artifact_v1/") for name in members if name.startswith("artifact_v1")}
    archive.write(other, {**members, **as_files})
    assert other.read_bytes() == package.read_bytes() == hostile.good(members)


@pytest.mark.parametrize("time", [(2023, 11, 14, 22, 13, 20), zips.LATEST])
def test_members_may_have_a_time(members: dict[str, bytes], tmp_path: Path, time: zips.Moment) -> None:
    archive.write(tmp_path / "dated.zip", members, time)
    assert archive.problems(tmp_path / "dated.zip") == []
    assert archive.extract(tmp_path / "dated.zip", tmp_path / "target").name == "artifact_v1"


def test_a_package_is_told_by_its_name_or_its_first_bytes(package: Path, tmp_path: Path) -> None:
    (tmp_path / "named.ZIP").write_text("")
    (tmp_path / "folder.zip").mkdir()
    assert archive.is_package(package)
    assert archive.is_package(package.rename(tmp_path / "without an ending"))
    assert archive.is_package(tmp_path / "named.ZIP")
    assert not archive.is_package(tmp_path / "folder.zip")
    assert not archive.is_package(tmp_path / "missing.zip")
    assert not archive.is_package(Path(__file__))


@pytest.mark.parametrize("kind", hostile.MAKERS)
def test_a_hostile_package_is_refused_and_leaves_nothing(members: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    make, word = hostile.MAKERS[kind]
    place = tmp_path / "some" / "where"
    place.mkdir(parents=True)
    path = place / "package.zip"
    path.write_bytes(make(members))
    (place / "empty").mkdir()
    before = contents(tmp_path)
    for target in (place / "target", place / "empty"):
        with pytest.raises(ArtifactDamaged, match=word) as caught:
            archive.extract(path, target)
        assert "\n" not in str(caught.value), "a name writes lines of its own"
        assert contents(tmp_path) == before
    assert all(found.isprintable() for found in archive.problems(path))


def test_there_are_enough_of_them() -> None:
    assert len(hostile.MAKERS) >= 80


def test_a_digest_that_was_taken_of_something_else_is_found_when_it_is_opened(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    for name in ("models_rank.json", "artifact_v1/README.md"):
        archive.write(tmp_path / "package.zip", members, known={name: "0" * 64})
        with pytest.raises(ArtifactDamaged, match=f"{name} was changed"):
            archive.extract(tmp_path / "package.zip", tmp_path / "target")
        assert not (tmp_path / "target").exists()


def test_a_target_with_files_in_it_is_left_alone(package: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "artifact_v1").mkdir(parents=True)
    (target / "artifact_v1" / "README.md").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match="not empty"):
        archive.extract(package, target)
    assert contents(tmp_path) == before


def test_an_archive_in_an_archive_is_a_file(members: dict[str, bytes], package: Path, tmp_path: Path) -> None:
    inner = package.read_bytes()
    archive.write(package, {**members, "artifact_v1/again.zip": inner})
    found = archive.extract(package, tmp_path / "target")
    assert (found / "again.zip").read_bytes() == inner


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_package_that_somebody_packed_again(members: dict[str, bytes], tmp_path: Path, method: int) -> None:
    """With another time and other modes, and compressed: the same files, and nothing else."""
    path = tmp_path / "again.zip"
    with zipfile.ZipFile(path, "w", method) as again:
        for name, content in hostile.sealed(members).items():
            again.writestr(name, content)
    assert archive.problems(path) == []
    found = archive.extract(path, tmp_path / "target")
    inside = of_artifact(members)
    assert {name: (found.parent / name).read_bytes() for name in inside} == inside


def test_wide_headers_are_read(members: dict[str, bytes], tmp_path: Path) -> None:
    """ZIP64, as zipfile writes it for members of more than 2 GiB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wide:
        for name, content in sorted(hostile.sealed(members).items()):
            with wide.open(zips.entry(name), "w", force_zip64=True) as stream:
                stream.write(content)
    path = tmp_path / "wide.zip"
    path.write_bytes(buffer.getvalue())
    found = archive.extract(path, tmp_path / "target")
    inside = of_artifact(members)
    assert {name: (found.parent / name).read_bytes() for name in inside} == inside


def test_a_package_that_would_be_refused_is_not_written(members: dict[str, bytes], tmp_path: Path) -> None:
    for name, word in hostile.NAMES.items():
        with pytest.raises(ArtifactDamaged, match=word):
            archive.write(tmp_path / "package.zip", {**members, name: b"evil"})
    with pytest.raises(ArtifactDamaged, match="twice"):
        archive.write(tmp_path / "package.zip", {**members, "SHA256SUMS": b""})
    with pytest.raises(ArtifactDamaged, match="no folder artifact_vN"):
        archive.write(tmp_path / "package.zip", {"README.md": b""})
    assert list(tmp_path.iterdir()) == []


def test_the_artifact_in_a_package_is_checked_too(members: dict[str, bytes], tmp_path: Path) -> None:
    """The list at the root is right, but the artifact's own is not."""
    path = tmp_path / "package.zip"
    archive.write(path, {**members, "artifact_v1/README.md": b"another card", "artifact_v1/extra.py": b"evil"})
    with pytest.raises(ArtifactDamaged) as caught:
        inspection.opened(path, tmp_path)
    assert str(caught.value) == f"{path}: artifact_v1 is damaged: extra.py was added; README.md was changed"


def flipped(path: Path, positions: list[int], dice: random.Random) -> Iterator[int]:
    """The file with one byte changed, for each position; afterwards it is as before."""
    with path.open("r+b") as file:
        for at in positions:
            file.seek(at)
            (old,) = file.read(1)
            for byte in (old ^ dice.randint(1, 255), old):
                file.seek(at)
                file.write(bytes([byte]))
                file.flush()
                if byte != old:
                    yield at


def test_every_changed_byte_of_an_artifact_is_found(artifact: Path) -> None:
    dice = random.Random(5)
    sizes = {name: (artifact / name).stat().st_size for name in folder.listing(artifact)}
    flips = 0
    for name, size in sizes.items():
        # the list of digests stands in no other list
        some = list(range(size)) * 2 if name == folder.SUMS else dice.sample(range(size), min(size, 120))
        for at in flipped(artifact / name, some, dice):
            flips += 1
            with pytest.raises(ArtifactDamaged):
                pytest.fail(f"byte {at} of {name}: {inspection.whole_artifact(artifact)['version']}")
    assert flips >= 500
    inspection.whole_artifact(artifact)


def test_every_changed_byte_of_a_package_is_found(package: Path, tmp_path: Path) -> None:
    dice = random.Random(6)
    with zipfile.ZipFile(package) as archived:
        entries = archived.infolist()
    content = package.read_bytes()
    starts = [(entry.header_offset, entry.header_offset + 30 + len(entry.filename)) for entry in entries]
    headers = [
        at for start, end in (*starts, (hostile.directory_at(content), len(content))) for at in range(start, end)
    ]
    for at in flipped(package, headers * 2, dice):
        assert archive.problems(package), f"byte {at}"
    for at in flipped(package, dice.sample(range(len(content)), 600), dice):
        with pytest.raises(ArtifactDamaged):
            pytest.fail(f"byte {at}: {archive.extract(package, tmp_path / 'target')}")
    assert archive.problems(package) == []


def test_a_package_cut_anywhere_is_refused(package: Path) -> None:
    content = package.read_bytes()
    for end in random.Random(7).sample(range(len(content)), 200):
        package.write_bytes(content[:end])
        assert archive.problems(package)
