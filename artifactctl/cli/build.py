"""artifactctl build"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from artifactctl.cli.options import Result, Settings, common_options, option, provider_option
from artifactctl.errors import ArtifactctlError


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL|FILE]...")
@option("--recipe", multiple=True, metavar="R", help="auto, fp32, fp16, int8-dynamic or olive:FILE.json; repeatable.")
@provider_option
@option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Where artifacts go  [default: artifacts]")
@option("--force", is_flag=True, help="Build a new version even if nothing changed.")
@common_options
@click.pass_obj
def build(
    settings: Settings,
    models: tuple[str, ...],
    recipe: tuple[str, ...],
    provider: str | None,
    output: Path | None,
    force: bool,
) -> Result:
    """Optimize, prove, measure and write the next artifact_vN.

    Without arguments every model of artifactctl.yaml is built. A FILE needs no configuration.
    """
    from artifactctl import config, recipes
    from artifactctl.pipeline import BuildRequest, build
    from artifactctl.report.progress import progress
    from artifactctl.report.text import build_data, build_text

    for name in recipe:
        if not recipes.is_recipe(name):
            known = ", ".join((recipes.AUTO, *recipes.RECIPES, f"{recipes.OLIVE_PREFIX}FILE.json"))
            raise click.BadParameter(f"{name!r} is not a recipe; choose from {known}", param_hint="--recipe")
    project = settings.project()
    artifacts = output or (project.root if project else Path.cwd()) / "artifacts"
    built, error = [], None
    for owner, found in config.select(project, models, Path.cwd()):
        chosen = replace(
            found,
            recipes=tuple(_seen_from(owner.root, name, recipes.OLIVE_PREFIX) for name in recipe) or found.recipes,
            providers=(provider,) if provider else found.providers,
        )
        try:
            with progress(settings, chosen) as say:
                built.append(build(BuildRequest(chosen, owner.root, artifacts, force, settings.verbose), say))
        except ArtifactctlError as failure:  # what was built before stays, and is reported
            error = failure
            break
    return Result(build_data(built), build_text(built), error)


def _seen_from(root: Path, recipe: str, prefix: str) -> str:
    """Files on the command line are relative to the working directory; records are relative to `root`."""
    if not recipe.startswith(prefix):
        return recipe
    return prefix + Path(os.path.relpath(recipe.removeprefix(prefix), root)).as_posix()
