"""The cache with real files and processes: whole or not at all, hashed again, never in the way of a build."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from artifactctl import cache, upkeep
from artifactctl.cache import Cache
from tests.conftest import ROOT, clean_environment

INPUTS = {"source": "a" * 64, "recipe": {"name": "fp32"}}
ABOUT = {"precision": "fp32", "passes": []}

STORE = """
import json, sys
from pathlib import Path
from artifactctl.cache import Cache
home, inputs, *files = sys.argv[1:]
names = {f"model/{position}.onnx": Path(name) for position, name in enumerate(files)}
print(Cache(Path(home), lambda text: print(text)).store(json.loads(inputs), {"precision": "fp32", "passes": []}, names))
"""


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    place = tmp_path / "made"
    place.mkdir()
    (place / "m.onnx").write_bytes(bytes(range(256)) * 40)
    (place / "m.data").write_bytes(b"weights" * 1000)
    return {"model/m.onnx": place / "m.onnx", "stages/0/m.data": place / "m.data"}


@pytest.fixture
def kept(tmp_path: Path, said: list[str], files: dict[str, Path]) -> Cache:
    found = Cache(tmp_path / "cache", said.append)
    assert found.store(INPUTS, ABOUT, files)
    return found


def entry_of(kept: Cache) -> Path:
    return kept.home / cache.ENTRIES / cache.key_of(INPUTS)


def storing(home: Path, *files: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STORE, str(home), json.dumps(INPUTS), *map(str, files)]
    return subprocess.Popen(
        command, env=clean_environment(PYTHONPATH=str(ROOT)), stdout=subprocess.PIPE, text=True, **options
    )  # type: ignore[call-overload]


def test_what_was_stored_comes_back(kept: Cache, files: dict[str, Path], tmp_path: Path, said: list[str]) -> None:
    assert kept.fetch(INPUTS, tmp_path / "taken") == ABOUT
    for name, path in files.items():
        assert (tmp_path / "taken" / name).read_bytes() == path.read_bytes()
    assert kept.fetch(INPUTS | {"source": "b" * 64}, tmp_path / "other") is None
    assert not (tmp_path / "other").exists()
    assert (kept.home / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    assert kept.home.stat().st_mode & 0o777 == 0o700
    assert said == []


def test_an_entry_without_files(kept: Cache, tmp_path: Path) -> None:
    inputs = INPUTS | {"recipe": {"name": "changes nothing"}}
    assert kept.store(inputs, ABOUT, {})
    assert kept.fetch(inputs, tmp_path / "taken") == ABOUT


@pytest.mark.parametrize("name", ["model/m.onnx", "stages/0/m.data", cache.MANIFEST])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_one_flipped_bit_is_a_miss_and_is_said(
    kept: Cache, files: dict[str, Path], tmp_path: Path, said: list[str], name: str, where: float
) -> None:
    path = entry_of(kept) / name
    content = bytearray(path.read_bytes())
    content[int((len(content) - 2) * where)] ^= 1
    path.unlink()  # the file of the build that stored it may be the same one
    path.write_bytes(content)
    assert kept.fetch(INPUTS, tmp_path / "taken") is None
    assert not (tmp_path / "taken").exists()
    assert not entry_of(kept).exists()
    assert len(said) == 1
    assert "damaged" in said[0]
    assert "removed" in said[0]
    assert kept.store(INPUTS, ABOUT, files)
    assert kept.fetch(INPUTS, tmp_path / "taken") == ABOUT


def spoil_missing(entry: Path) -> None:
    (entry / "model" / "m.onnx").unlink()


def spoil_added(entry: Path) -> None:
    (entry / "model" / "more.data").write_bytes(b"")


def spoil_linked(entry: Path) -> None:
    path = entry / "model" / "m.onnx"
    path.rename(entry.parent.parent / "elsewhere")
    path.symlink_to(entry.parent.parent / "elsewhere")


def spoil_manifest(entry: Path) -> None:
    (entry / cache.MANIFEST).unlink()


def spoil_forged(entry: Path) -> None:
    data = json.loads((entry / cache.MANIFEST).read_text())
    data["about"]["precision"] = "int8"
    (entry / cache.MANIFEST).write_text(json.dumps(data))


def spoil_other_inputs(entry: Path) -> None:
    """Whole in itself, and of another source."""
    data = json.loads((entry / cache.MANIFEST).read_text())
    del data["sha256"]
    data["inputs"]["source"] = "b" * 64
    (entry / cache.MANIFEST).write_text(json.dumps(data | {"sha256": cache.key_of(data)}))


def spoil_not_a_folder(entry: Path) -> None:
    entry.rename(entry.with_name("aside"))
    entry.write_bytes(b"")


SPOILS = [
    spoil_missing, spoil_added, spoil_linked, spoil_manifest, spoil_forged, spoil_other_inputs, spoil_not_a_folder
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__.removeprefix("spoil_"))
def test_a_spoiled_entry_is_removed(kept: Cache, tmp_path: Path, said: list[str], spoil: object) -> None:
    assert callable(spoil)
    spoil(entry_of(kept))
    assert kept.fetch(INPUTS, tmp_path / "taken") is None
    assert not os.path.lexists(entry_of(kept))
    assert ["damaged" in text for text in said] == [True]


def test_what_was_hashed_is_what_is_used(kept: Cache, tmp_path: Path) -> None:
    """An entry that is taken away later takes nothing from a build."""
    assert kept.fetch(INPUTS, tmp_path / "taken") == ABOUT
    assert cache.remove(entry_of(kept))
    assert (tmp_path / "taken" / "model" / "m.onnx").stat().st_size == 256 * 40


def test_many_processes_store_the_same(tmp_path: Path, files: dict[str, Path]) -> None:
    running = [storing(tmp_path / "cache", *files.values()) for _ in range(6)]
    ended = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 6
    assert "True\n" in ended
    assert not any("warning" in text for text in ended), ended
    found = Cache(tmp_path / "cache", lambda _: None)
    assert found.fetch(INPUTS, tmp_path / "taken") == ABOUT
    assert [path.name for path in (tmp_path / "cache" / cache.ENTRIES).iterdir()] == [cache.key_of(INPUTS)]


def test_killed_while_it_writes(tmp_path: Path, files: dict[str, Path], said: list[str]) -> None:
    """The child waits for a pipe in the middle of an entry; nothing of it is ever seen, and the next run tidies up."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = storing(tmp_path / "cache", files["model/m.onnx"], pipe)
    with pipe.open("wb"):  # both ends are open: it is there
        process.send_signal(signal.SIGKILL)
        process.communicate()
    home = tmp_path / "cache" / cache.ENTRIES
    assert [path.suffix for path in home.iterdir()] == [".part"]
    found = Cache(tmp_path / "cache", said.append)
    assert found.fetch(INPUTS, tmp_path / "taken") is None
    assert found.store(INPUTS, ABOUT, files)
    assert [path.name for path in home.iterdir()] == [cache.key_of(INPUTS)]
    assert said == []


def test_a_full_disk_costs_nothing_but_the_entry(tmp_path: Path, files: dict[str, Path]) -> None:
    def few_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))

    process = storing(tmp_path / "cache", *files.values(), preexec_fn=few_bytes)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert out.count("warning: the cache is not used") == 1
    assert out.endswith("False\n")
    assert list((tmp_path / "cache" / cache.ENTRIES).iterdir()) == []


def test_a_place_that_cannot_be_written(files: dict[str, Path], tmp_path: Path, said: list[str]) -> None:
    """Not even by root."""
    found = Cache(Path("/sys/artifactctl"), said.append)
    assert not found.store(INPUTS, ABOUT, files)
    assert not found.store(INPUTS, ABOUT, files)
    assert found.fetch(INPUTS, tmp_path / "taken") is None
    assert len(said) == 1


def somebody_elses(place: Path) -> Path:
    if os.geteuid() == 0:
        os.chown(place, 4321, 4321)
        return place
    return Path("/usr")


def test_the_cache_of_somebody_else_is_not_used(
    kept: Cache, files: dict[str, Path], tmp_path: Path, said: list[str]
) -> None:
    found = Cache(somebody_elses(kept.home), said.append)
    assert found.fetch(INPUTS, tmp_path / "taken") is None
    assert not found.store(INPUTS, ABOUT, files)
    instead = "another place: ARTIFACTCTL_CACHE=DIR; none, and no warning: build --no-cache"
    assert said == [f"warning: the cache is not used: {found.home}: it belongs to another user ({instead})"]


def test_a_cache_that_everyone_may_write_is_not_used(kept: Cache, tmp_path: Path, said: list[str]) -> None:
    kept.home.chmod(0o777)
    assert kept.fetch(INPUTS, tmp_path / "taken") is None
    assert "everyone may write" in said[0]


def test_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    found = cache.place()
    assert found is not None
    assert found.name == "artifactctl"
    if sys.platform == "linux":
        assert found == tmp_path / "xdg" / "artifactctl"
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "own"))
    assert cache.place() == tmp_path / "own"


def test_a_plan_holds_while_its_entries_do(kept: Cache) -> None:
    question = {"files": {"m.onnx": "c" * 64}}
    assert not kept.is_warm(question)
    kept.remember(question, [cache.key_of(INPUTS)])
    assert kept.is_warm(question)
    assert cache.remove(entry_of(kept))
    assert not kept.is_warm(question)


def test_upkeep(kept: Cache, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(kept.home))
    other = INPUTS | {"source": "b" * 64}
    assert kept.store(other, ABOUT, files)
    (kept.home / cache.ENTRIES / "notes.txt").write_text("mine")
    long_ago = 86400.0 * 365
    os.utime(entry_of(kept) / cache.MANIFEST, (long_ago, long_ago))
    found = upkeep.info()
    assert (found["path"], found["usable"], found["entries"]) == (str(kept.home), True, 2)
    assert found["oldest"] == "1971-01-01T00:00:00+00:00"
    assert found["size_bytes"] > 2 * (256 * 40 + 7000)
    assert kept.fetch(other, tmp_path / "taken") == ABOUT
    assert upkeep.clear(30)["removed"] == 1
    assert not entry_of(kept).exists()
    left = upkeep.clear(None)
    assert (left["removed"], left["kept"]) == (1, 0)
    assert upkeep.info()["entries"] == 0
    assert (kept.home / cache.ENTRIES / "notes.txt").read_text() == "mine"


def test_use_makes_an_entry_young(kept: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(kept.home))
    os.utime(entry_of(kept) / cache.MANIFEST, (86400.0, 86400.0))
    assert kept.fetch(INPUTS, tmp_path / "taken") == ABOUT
    assert upkeep.clear(30) == {"path": str(kept.home), "removed": 0, "kept": 1, "size_bytes": 0}
