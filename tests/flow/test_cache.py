"""Builds with a cache: the same bytes as without, no Olive where everything is there, and nothing that stops them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from artifactctl import cache, folder, metadata, schema
from tests.conftest import MODELS, ROOT, Finished, clean_environment, run_cli

SAME = ("model_opt.onnx", "golden.npz", "validate.py", "evidence/equivalence.json")


def environment(home: Path, **extra: str) -> dict[str, str]:
    return {"ARTIFACTCTL_NO_CACHE": "", cache.VARIABLE: str(home)} | extra


# slim gives the model of fp32 and fp16 does not hold: what is refused for its times is the same in every run
EACH = ("fp32", "slim", "fp16")


def project(place: Path, *recipes: str) -> Path:
    """The model whose fp32 recipe has several stages, with little time for measuring."""
    place.mkdir()
    shutil.copy(MODELS / "cnn.onnx", place)
    model = {"source": {"onnx": "cnn.onnx"}, "latency": {"budget_s": 1}, "optimize": {"recipes": list(recipes)}}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {"cnn": model}}))
    return place


def build(place: Path, home: Path, *options: str, **extra: str) -> tuple[Finished, Path]:
    done = run_cli("build", "--force", *options, cwd=place, env=environment(home, **extra))
    assert done.code == 0, done.err
    found = folder.latest(place / "artifacts" / "cnn")
    assert found is not None
    return done, found


def entries(home: Path) -> dict[str, str]:
    return {name: folder.digest(home / cache.ENTRIES / name) for name in folder.listing(home / cache.ENTRIES)}


def demand_same(first: Path, second: Path) -> None:
    for name in SAME:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert metadata.without_measurements(metadata.read(first)) == metadata.without_measurements(metadata.read(second))


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An artifact, and the cache that its build filled."""
    base = tmp_path_factory.mktemp("cold")
    done, found = build(project(base / "p", *EACH), base / "cache")
    assert "taken from the cache" not in done.err
    return found, base / "cache"


def test_a_warm_build_gives_the_same_bytes_and_loads_no_olive(cold: tuple[Path, Path], tmp_path: Path) -> None:
    artifact, filled = cold
    home = Path(shutil.copytree(filled, tmp_path / "cache"))
    before = entries(home)
    broken = tmp_path / "broken" / "olive"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('nobody may load it')\n")
    place, path = project(tmp_path / "p", *EACH), os.pathsep.join((str(broken.parent), str(ROOT)))
    done, found = build(place, home, PYTHONPATH=path)
    assert done.err.count("taken from the cache") == 3  # each of them
    assert "optimizing" not in done.err
    demand_same(artifact, found)
    assert entries(home) == before
    # without the cache it is needed after all, and `rebuild` never believes a cache
    assert run_cli("build", "--force", "--no-cache", cwd=place, env=environment(home, PYTHONPATH=path)).code == 9
    again = run_cli("rebuild", "--check", "--exact", found, cwd=place, env=environment(home))
    assert again.code == 0, again.err


def test_a_flipped_byte_is_said_and_mended(cold: tuple[Path, Path], tmp_path: Path) -> None:
    artifact, filled = cold
    home = Path(shutil.copytree(filled, tmp_path / "cache"))
    before = entries(home)
    for name in before:
        if name.endswith("model/model.onnx"):
            path = home / cache.ENTRIES / name
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0x10
            path.chmod(0o644)
            path.write_bytes(content)
    done, found = build(project(tmp_path / "p", *EACH), home)
    assert done.err.count("warning: an entry of the cache is damaged (model/model.onnx was changed)") == 3
    assert "taken from the cache" not in done.err
    demand_same(artifact, found)
    assert entries(home) == before


def test_two_builds_at_once_share_it(cold: tuple[Path, Path], tmp_path: Path) -> None:
    artifact, _ = cold
    home, running = tmp_path / "cache", []
    for name in ("a", "b"):
        place = project(tmp_path / name, *EACH)
        command = [sys.executable, "-m", "artifactctl", "build"]
        env = clean_environment(**environment(home))
        running.append(subprocess.Popen(command, cwd=place, env=env, stderr=subprocess.PIPE, text=True))
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    assert not any("warning" in text for text in said)
    for name in ("a", "b"):
        demand_same(artifact, tmp_path / name / "artifacts" / "cnn" / "artifact_v1")
    assert not list((home / cache.ENTRIES).glob(".*"))


def test_a_cache_that_cannot_be_used_stops_nothing(cold: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    done, found = build(project(tmp_path / "p", *EACH), tmp_path / "cache")
    assert done.err.count("warning: the cache is not used") == 1
    assert list((tmp_path / "cache").iterdir()) == []
    demand_same(cold[0], found)


def test_what_failed_is_not_kept(tmp_path: Path) -> None:
    place = project(tmp_path / "p", "fp32")
    (place / "bad.json").write_text('{"passes": {"q": {"type": "OnnxStaticQuantization"}}}')
    done, _ = build(place, tmp_path / "cache", "--recipe", "fp32", "--recipe", "olive:bad.json", "--json")
    found = {entry["recipe"]: entry for entry in done.json["data"]["artifacts"][0]["candidates"]}
    assert found["olive:bad.json"]["status"] == "rejected"
    assert len(list((tmp_path / "cache" / cache.ENTRIES).iterdir())) == 1


def test_two_olive_files_that_ask_the_same(tmp_path: Path) -> None:
    """Each is a candidate of its own name; the second build takes both from the cache."""
    place, home = project(tmp_path / "p", "fp32"), tmp_path / "cache"
    for name in ("a", "b"):
        (place / f"{name}.json").write_text('{"passes": {"h": {"type": "OnnxFloatToFloat16", "keep_io_types": true}}}')
    options = ("--recipe", "olive:a.json", "--recipe", "olive:b.json", "--json")
    runs = [build(place, home, *options)[0] for _ in range(2)]
    assert [done.err.count("taken from the cache") for done in runs] == [0, 2]
    shown = [[(entry["recipe"], entry["equivalence"], entry["culprit"]) for entry in artifact["candidates"]]
             for done in runs for artifact in done.json["data"]["artifacts"]]  # fmt: skip
    assert shown[0] == shown[1]
    assert [name for name, _, _ in shown[0]] == ["olive:a.json", "olive:b.json", "source"]


def test_info_and_clear(cold: tuple[Path, Path], tmp_path: Path, cli: Callable[..., Finished]) -> None:
    home = Path(shutil.copytree(cold[1], tmp_path / "cache"))
    env = environment(home)
    shown = cli("cache", "info", "--json", env=env)
    assert schema.problems(shown.json, "report") == []
    assert shown.json["data"]["entries"] == 3
    assert shown.json["data"]["path"] == str(home)
    assert str(home) in cli("cache", "info", env=env).out
    assert cli("cache", "info", "--older-than", "3", env=env).code == 2
    assert cli("cache", "clear", "--older-than", "3", "--json", env=env).json["data"]["kept"] == 3
    cleared = cli("cache", "clear", "--json", env=env)
    assert schema.problems(cleared.json, "report") == []
    assert cleared.json["data"]["removed"] == 3
    assert cli("cache", "info", "--json", env=env).json["data"]["entries"] == 0
    home.chmod(0o777)
    refused = cli("cache", "clear", env=env)
    assert refused.code == 9
    assert "ARTIFACTCTL_CACHE" in refused.err
    doctor = cli("doctor", "--json", env=env)
    assert schema.problems(doctor.json, "report") == []
    assert doctor.json["data"]["cache"]["why"] == "everyone may write into it"
