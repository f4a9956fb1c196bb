from __future__ import annotations

import random

import pytest

from artifactctl.versions import folder_name, is_model_name, model_name_from, next_version, parse_folder_name


@pytest.mark.parametrize("version", [1, 9, 10, 123456])
def test_a_folder_name_is_read_back(version: int) -> None:
    assert parse_folder_name(folder_name(version)) == version


@pytest.mark.parametrize(
    "name",
    ["artifact_v0", "artifact_v01", "artifact_v", "artifact_v-1", "Artifact_v1", "artifact_v1\n", "xartifact_v1"],
)
def test_other_names_are_no_versions(name: str) -> None:
    assert parse_folder_name(name) is None


def test_the_next_version_is_one_more_than_the_largest() -> None:
    assert next_version([]) == 1
    assert next_version(["notes", ".work"]) == 1
    assert next_version(["artifact_v2", "artifact_v10", "artifact_v9"]) == 11


@pytest.mark.parametrize("name", ["m", "simple_cnn", "resnet-50", "v1.5", "_x", "7", "x" * 100])
def test_good_model_names(name: str) -> None:
    assert is_model_name(name)
    assert model_name_from(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "-q", "a b", "a/b", "a\\b", "a..b", "a.", "a.lock", "m\n", "naïve", "CON", "nul.x",
     "lpt1", "x" * 101],
)  # fmt: skip
def test_bad_model_names(name: str) -> None:
    assert not is_model_name(name)


def test_a_file_stem_becomes_the_nearest_name() -> None:
    assert model_name_from("my model(1)") == "my_model_1_"
    assert model_name_from("...") == "model"
    assert model_name_from("aux") == "model_aux"


@pytest.mark.parametrize(
    "stem", ["a.lock.lock", "con." + "x" * 200, "naïve", "模型", "-", "--help", "a..b..", "x" * 300]
)
def test_odd_stems_give_valid_names(stem: str) -> None:
    assert is_model_name(model_name_from(stem))


def test_any_stem_gives_a_valid_name() -> None:
    dice = random.Random(0)
    pieces = ["a", "Z", "7", ".", "..", "-", "_", " ", "é", ".lock", "con", "nul", "(", "%", "com1"]
    for _ in range(2000):
        stem = "".join(dice.choices(pieces, k=dice.randint(0, 12)))
        assert is_model_name(model_name_from(stem)), stem
