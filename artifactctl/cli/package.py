"""artifactctl package"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("artifact")
@option("--output", metavar="DIR", default="dist", help="Where the package goes  [default: dist]")
@limit_options
@common_options
@click.pass_obj
def package(settings: Settings, artifact: str, output: str, limits: Limits) -> Result:
    """Write the Olive zip with the whole artifact in it; open it again and prove it.

    The same artifact gives the same bytes on every machine.
    """
    from pathlib import Path

    from artifactctl.crew import Crew
    from artifactctl.report.progress import progress
    from artifactctl.report.release import package_data, package_text
    from artifactctl.steps import package as step

    with Crew(limits=limits, verbose=settings.verbose) as crew, progress(settings, "package", 2) as say:
        made = step.package(Path(artifact), Path(output), crew, say)
    return Result(package_data(made), package_text(made))
