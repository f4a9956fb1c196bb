"""artifactctl build"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import (
    Result,
    Settings,
    common_options,
    limit_options,
    max_regression_option,
    option,
    provider_option,
)
from artifactctl.errors import ArtifactctlError, perhaps

if TYPE_CHECKING:
    from pathlib import Path

    from artifactctl.crew import Crew
    from artifactctl.folder import ArtifactFolder
    from artifactctl.project import BuildRequest, Limits, Say
    from artifactctl.steps.package import Package


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL|FILE]...")
@option("--recipe", multiple=True, metavar="R", help="auto, fp32, fp16, int8-dynamic … or olive:FILE.json; repeatable.")
@provider_option
@max_regression_option
@option("--output", metavar="DIR", help="Where artifacts go  [default: artifacts]")
@option("--package", metavar="DIR", help="Also write each version's package into DIR, as 'artifactctl package' does.")
@option("--force", is_flag=True, help="Build a new version even if nothing changed.")
@option("--no-cache", is_flag=True, help="Run every recipe anew; read and write nothing in the cache.")
@option(
    "--check", is_flag=True, help="Build nothing: is there a version of just these inputs, and is it staged in git?"
)
@limit_options
@common_options
@click.pass_obj
def build(
    settings: Settings,
    models: tuple[str, ...],
    recipe: tuple[str, ...],
    provider: str | None,
    max_regression: float | None,
    output: str | None,
    package: str | None,
    force: bool,
    no_cache: bool,
    check: bool,
    limits: Limits,
) -> Result:
    """Optimize, prove, measure and write the next artifact_vN.

    Without arguments every model of artifactctl.yaml is built. A FILE needs no configuration.

    --check is for hooks and CI. It exits 11 where a model or its configuration changed without its artifact, and says
    what to type; a folder without artifactctl.yaml has nothing to check.
    """
    from pathlib import Path

    from artifactctl import cache, config, recipes
    from artifactctl.project import BuildRequest
    from artifactctl.report.progress import progress
    from artifactctl.report.release import package_data, package_text
    from artifactctl.report.text import build_data, build_text
    from artifactctl.unchanged import demand_current, find_unchanged

    if check and (force or package):
        raise click.UsageError("--check builds nothing, so there is nothing to --force or to --package")
    for name in recipe:
        if not recipes.is_recipe(name):
            known = recipes.known()
            message = f"{name!r} is not a recipe{perhaps(name, known)}; choose from {', '.join(known)}"
            raise click.BadParameter(message, param_hint="--recipe")
    project = settings.project()
    if check and not project and not models:
        return Result(build_data([]) | {"failed": []}, "nothing to check: there is no artifactctl.yaml here")
    artifacts = Path(output).resolve() if output else (project.root if project else Path.cwd()) / "artifacts"
    if artifacts.exists() and not artifacts.is_dir():
        raise click.BadParameter(f"{output} is a file, not a folder", param_hint="--output")
    kept = None if no_cache else cache.place()
    built, failed = [], []
    packages: dict[str, Package] = {}
    with contextlib.ExitStack() as stack:
        crew: list[Crew] = []
        for owner, found in config.select(project, models, Path.cwd()):
            allowed = found.latency.max_regression if max_regression is None else max_regression
            chosen = replace(
                found,
                latency=replace(found.latency, max_regression=allowed),
                recipes=tuple(_seen_from(owner.root, name, recipes.OLIVE_PREFIX) for name in recipe) or found.recipes,
                providers=(provider,) if provider else found.providers,
            )
            request = BuildRequest(chosen, owner.root, artifacts, force, kept)
            try:
                with progress(settings, chosen.name, 4 + 3 * len(recipes.expand(chosen)[0])) as say:
                    result = demand_current(request, owner.config_path, say) if check else find_unchanged(request, say)
                    if result is None or package:
                        crew = crew or [stack.enter_context(_crew(limits, settings))]
                    result = result or _build(request, crew[0], say)
                    built.append(result)
                    if package:
                        packages[chosen.name] = _package(result, Path(package), crew[0], say)
            except ArtifactctlError as failure:  # the other models are built all the same
                failed.append((chosen.name, failure))
    data = build_data(built) | {"failed": [{"model": name, "error": failure.name} for name, failure in failed]}
    for entry in data["artifacts"]:
        entry["package"] = package_data(packages[entry["model"]]) if entry["model"] in packages else None
    text = "\n\n".join([build_text(built), *map(package_text, packages.values())])
    return Result(data, text, _joined(failed))


def _joined(failed: list[tuple[str, ArtifactctlError]]) -> ArtifactctlError | None:
    """One error for all: the first one's kind, and every message and hint."""
    if not failed:
        return None
    hints = dict.fromkeys(failure.hint for _, failure in failed)
    return type(failed[0][1])("\n".join(f"{name}: {failure}" for name, failure in failed), hint="\n".join(hints))


def _crew(limits: Limits, settings: Settings) -> Crew:
    from artifactctl.crew import Crew

    return Crew(limits=limits, verbose=settings.verbose)


def _build(request: BuildRequest, crew: Crew, say: Say) -> ArtifactFolder:
    """The heavy way, imported only when there is something to do."""
    from artifactctl.pipeline import build

    return build(request, crew, say)


def _package(built: ArtifactFolder, place: Path, crew: Crew, say: Say) -> Package:
    from artifactctl.steps.package import package

    return package(built.path, place, crew, say)


def _seen_from(root: object, recipe: str, prefix: str) -> str:
    """Files on the command line are relative to the working directory; records are relative to `root`."""
    if not recipe.startswith(prefix):
        return recipe
    return prefix + os.path.relpath(recipe.removeprefix(prefix), str(root)).replace(os.sep, "/")
