from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl import yamlfile
from artifactctl.errors import ConfigError

TEXT = """\
# a comment
models:
  m:
    list: [one, {two: 2}]
    "quoted key": null
"""


def test_every_value_has_its_place() -> None:
    document = yamlfile.parse(TEXT, "a.yaml")
    assert document.data == {"models": {"m": {"list": ["one", {"two": 2}], "quoted key": None}}}
    assert document.where(("models",)) == "a.yaml:2:1"
    assert document.where(("models", "m", "list")) == "a.yaml:4:5"
    assert document.where(("models", "m", "list", 0)) == "a.yaml:4:12"
    assert document.where(("models", "m", "list", 1, "two")) == "a.yaml:4:18"
    assert document.where(("models", "m", "quoted key")) == "a.yaml:5:5"


def test_the_place_of_what_is_missing_is_that_of_what_is_around_it() -> None:
    document = yamlfile.parse(TEXT, "a.yaml")
    assert document.where(("models", "m", "source", "onnx")) == "a.yaml:3:3"
    assert document.where(("nothing",)) == document.where(()) == "a.yaml:2:1"


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: {b: 1, b: 1}", "- {x: 1, 'x': 2}"])
def test_a_key_that_appears_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"f:\d+:\d+: key '[abx]' appears twice"):
        yamlfile.parse(text, "f")


def test_the_second_of_two_equal_keys_is_named() -> None:
    with pytest.raises(ConfigError, match=r"f:3:3: key 'x' appears twice"):
        yamlfile.parse("m:\n  x: 1\n  x: 2\n", "f")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E6", 1e6),
        ("-2e2", -200.0),
        ("1.5e+2", 150.0),
        ("1.0e-3", 1e-3),
        ("1_0e1", 100.0),
        ("0.1", 0.1),
    ],
)
def test_numbers_with_an_exponent_are_floats(text: str, value: float) -> None:
    found = yamlfile.parse(f"x: {text}", "f").data["x"]
    assert isinstance(found, float)
    assert found == value


@pytest.mark.parametrize("text", ["'1e-3'", '"1e-3"', "e3", "1e", "v1e3"])
def test_quoted_and_other_words_stay_text(text: str) -> None:
    assert yamlfile.parse(f"x: {text}", "f").data["x"] == text.strip("'\"")


def test_other_scalars() -> None:
    data = yamlfile.parse("a: 3\nb: true\nc: ~\nd: text\ne: ''\nf: 10%", "f").data
    assert data == {"a": 3, "b": True, "c": None, "d": "text", "e": "", "f": "10%"}
    assert type(data["a"]) is int


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="too many values"):
        yamlfile.parse("\n".join(lines), "f")


def test_ordinary_aliases_are_read() -> None:
    assert yamlfile.parse("a: &x {k: 1}\nb: *x", "f").data == {"a": {"k": 1}, "b": {"k": 1}}


@pytest.mark.parametrize("text", ["a: &a [*a]", "[" * 3000 + "]" * 3000], ids=["alias of itself", "deep"])
def test_endless_and_very_deep_values_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        yamlfile.parse(text, "f")


@pytest.mark.parametrize("text", ["a: [1, 2", "a: b: c", "\tx: 1", "a: *nobody", "a: 'open", "%", "--- 1\n--- 2"])
def test_invalid_yaml_has_a_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^f:\d+:\d+: not valid YAML: "):
        yamlfile.parse(text, "f")


@pytest.mark.parametrize("text", ["!!python/name:os.getcwd", "!!int foo", "!!bool foo", "2020-13-45", "0b_"])
def test_values_that_cannot_be_made_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="f"):
        yamlfile.parse(f"a: {text}", "f")


def test_control_characters_are_refused() -> None:
    with pytest.raises(ConfigError, match="not valid YAML"):
        yamlfile.parse("a: \x00", "f")


def test_an_empty_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("# nothing\n")
    assert yamlfile.read(tmp_path / "x.yaml").data is None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x.yaml does not exist") as missing:
        yamlfile.read(tmp_path / "x.yaml")
    assert "artifactctl init" in missing.value.hint
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin.yaml cannot be read"):
        yamlfile.read(tmp_path / "latin.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        yamlfile.read(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes("\ufeffa: 1\n".encode())
    assert yamlfile.read(tmp_path / "x.yaml").data == {"a": 1}
