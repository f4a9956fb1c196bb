"""artifactctl diff"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@option("--markdown", is_flag=True, help="As release notes of B, in Markdown.")
@limit_options
@common_options
@click.pass_obj
def diff(settings: Settings, before: str, after: str, markdown: bool, limits: Limits) -> Result:
    """Show what changed from A to B: inputs, operators, weights, proof, speed.

    Each is an ARTIFACT, MODEL@vN or an ONNX FILE; A is the older one. Nothing is run, and a difference is no failure.
    """
    from artifactctl.crew import Crew
    from artifactctl.report import notes
    from artifactctl.report.diff import diff_data, diff_text
    from artifactctl.steps import diff as step
    from artifactctl.steps.sides import side_named

    with Crew(limits=limits, verbose=settings.verbose) as crew:
        older, newer = (side_named(text, crew.scratch / name) for name, text in (("a", before), ("b", after)))
        found = step.diff(older, newer, crew)
        # while what was fetched from tags is still there
        return Result(diff_data(found), notes.markdown(found).rstrip() if markdown else diff_text(found))
