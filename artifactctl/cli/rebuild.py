"""artifactctl rebuild"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option
from artifactctl.errors import ArtifactctlError, Conflict, NotEquivalent

if TYPE_CHECKING:
    from pathlib import Path

    from artifactctl.project import Limits
    from artifactctl.steps.rebuild import Comparison


@click.command()
@click.argument("artifact")
@option("--check", is_flag=True, help="Build it somewhere else and compare; the only thing that rebuild does.")
@option("--exact", is_flag=True, help="Exit 11 unless it is identical; equal outputs are not enough.")
@limit_options
@common_options
@click.pass_obj
def rebuild(settings: Settings, artifact: str, check: bool, exact: bool, limits: Limits) -> Result:
    """Build a version again from its recorded inputs, and say where it differs: bytes, graph, outputs.

    The recipe that was chosen then is taken again, and nothing is timed. Nothing is written into artifacts/.
    """
    from pathlib import Path

    from artifactctl import inspection, origin
    from artifactctl.crew import Crew
    from artifactctl.report.progress import progress
    from artifactctl.report.rebuild import rebuild_data, rebuild_text
    from artifactctl.steps import rebuild as step

    if not check:
        raise click.UsageError(f"a version is never changed; to compare one with a rebuild: rebuild --check {artifact}")
    path = Path(artifact)
    recorded = inspection.whole_artifact(path)
    project = settings.project() or origin.own_project(path)
    steps = 4 + 2 * len(recorded["recipe"]["candidates"])
    with Crew(limits=limits, verbose=settings.verbose) as crew, progress(settings, path.name, steps) as say:
        found = step.rebuild(path, recorded, project, crew, say)
    return Result(rebuild_data(path, found), rebuild_text(path, found), _problem(path, found, exact=exact))


def _problem(path: Path, found: Comparison, *, exact: bool) -> ArtifactctlError | None:
    why = "; ".join(found.reasons)
    if found.verdict == "different":
        hint = "Do not trust this version; build a new one from the inputs: artifactctl build"
        return NotEquivalent(f"{path} is not what its inputs give: {why}", hint=hint)
    if found.verdict == "equivalent" and exact:
        then = {entry["package"]: entry["recorded"] for entry in found.environment if entry["recorded"]}
        same = ", ".join(f"{name} {version}" for name, version in then.items())
        hint = f"Run it where it was built, or with the same: {same}" if same else "Run it without --exact."
        return Conflict(f"{path} is equivalent to its rebuild, but not identical: {why}", hint=hint)
    return None
