"""README, guide and schemas say what the program does. `pytest --update-goldens` writes the README's parts anew."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from artifactctl import errors, recipes, resources
from artifactctl.providers import PROVIDERS
from tests.conftest import ROOT, Finished

README = ROOT / "README.md"


def part(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- /{name} -->)", re.DOTALL)


def agree(name: str, expected: str, update: bool) -> None:
    text = README.read_text(encoding="utf-8")
    if update:
        README.write_text(part(name).sub(lambda match: match[1] + expected + match[3], text), encoding="utf-8")
        return
    found = part(name).search(text)
    assert found is not None
    assert found[2] == expected


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.mark.xdist_group("readme")
def test_help_text(cli: Callable[..., Finished], update: bool) -> None:
    done = cli("--help", env={"COLUMNS": "100"})
    agree("help", f"```\n{done.out}```\n", update)


@pytest.mark.xdist_group("readme")
def test_exit_codes(update: bool) -> None:
    rows = [
        "| 0 | – | done, or nothing to do |",
        "| 1 | – | a bug in artifactctl (traceback shown) |",
        "| 2 | usage | wrong arguments |",
    ]
    rows += [f"| {code} | {cls.__name__} | {cls.meaning} |" for code, cls in sorted(errors.EXIT_CODES.items())]
    rows += ["| 130 | – | interrupted; nothing half-made is left |"]
    agree("exit-codes", "\n".join(["| code | name | meaning |", "| --- | --- | --- |", *rows]) + "\n", update)


def test_every_command_explains_itself(cli: Callable[..., Finished]) -> None:
    from artifactctl.cli import COMMANDS

    for command in COMMANDS:
        done = cli(command, "--help")
        assert done.code == 0
        assert done.out.startswith(f"Usage: artifactctl {command}")


def test_schema_knows_the_recipes_and_providers() -> None:
    from artifactctl import schema

    model = schema.load("config")["$defs"]["model"]["properties"]
    named = model["optimize"]["properties"]["recipes"]["items"]["anyOf"][0]["enum"]
    assert named == [recipes.AUTO, *recipes.RECIPES]
    assert model["providers"]["items"]["enum"] == list(PROVIDERS)


def test_schemas_are_listed_and_are_schemas() -> None:
    import jsonschema

    from artifactctl import schema

    listed = re.findall(r"`([\w-]+)\.schema\.json`", (ROOT / "schemas" / "README.md").read_text())
    assert sorted(listed) == resources.schema_names()
    for name in resources.schema_names():
        jsonschema.Draft202012Validator.check_schema(schema.load(name))


def test_yaml_of_the_readme_is_valid(tmp_path: Path) -> None:
    from artifactctl import config

    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        path = tmp_path / "artifactctl.yaml"
        path.write_text(block)
        assert config.load(path).models


def test_guide_names_every_key() -> None:
    from artifactctl import schema

    guide = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    model = schema.load("config")["$defs"]["model"]["properties"]
    release = {"release": schema.load("config")["properties"]["release"]}
    for section, body in (model | release).items():
        assert section in guide
        for key in body.get("properties", {}):
            assert f"{section}.{key}" in guide or f"`{key}`" in guide, f"{section}.{key}"


def test_constraints_pin_what_the_project_needs() -> None:
    import tomllib

    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    wanted += [item for extra in ("cpu", "build", "sign", "dev") for item in project["optional-dependencies"][extra]]
    names = {re.split(r"[<>=\[ ]", item)[0].lower() for item in wanted}
    assert names <= pinned, names - pinned
    base = {re.split(r"[<>=\[ ]", item)[0].lower() for item in project["dependencies"]}
    assert not base & {"torch", "onnxruntime", "olive-ai"}


def test_workflow_and_pre_commit_of_this_repository_are_yaml() -> None:
    for path in (
        ROOT / ".github/workflows/ci.yml",
        ROOT / ".pre-commit-config.yaml",
        *(ROOT / "templates").glob("*.yml"),
    ):
        assert yaml.safe_load(path.read_text())
