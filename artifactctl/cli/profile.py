"""artifactctl profile"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option, provider_option

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("target", metavar="ARTIFACT|FILE")
@option("--against", metavar="ARTIFACT|FILE", help="Also profile this one on the same inputs, and show what differs.")
@provider_option
@option(
    "--runs",
    type=click.IntRange(min=1, max=1000),
    metavar="N",
    help="Runs after the warm-up  [default: 20, or what fits into 10 s]",
)
@option(
    "--output",
    type=click.Path(file_okay=False),
    default="profiles",
    metavar="DIR",
    help="Where the traces are kept  [default: profiles]",
)
@limit_options
@common_options
@click.pass_obj
def profile(
    settings: Settings,
    target: str,
    against: str | None,
    provider: str | None,
    runs: int | None,
    output: str,
    limits: Limits,
) -> Result:
    """Show where the time of a run goes, by operator and by node.

    Of one model, or of two side by side, the largest change first. ONNX Runtime's traces are kept.
    """
    from pathlib import Path

    from artifactctl.crew import Crew
    from artifactctl.report.profile import profile_data, profile_text
    from artifactctl.report.progress import progress
    from artifactctl.steps import profile as step
    from artifactctl.steps.sides import side_of

    sides = [side_of(Path(path)) for path in (target, against) if path]
    with (
        progress(settings, "profile", 2) as say,
        Crew(limits=limits, verbose=settings.verbose) as crew,
    ):
        found, origin = step.profile(sides, provider, runs, crew, say)
        traces = step.keep_traces(found, Path(output))
    data = profile_data(found, traces, origin)
    return Result(data, profile_text(data))
