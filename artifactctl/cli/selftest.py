"""artifactctl selftest"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("model", metavar="[ARTIFACT|FILE]", required=False)
@limit_options
@common_options
@click.pass_obj
def selftest(settings: Settings, model: str | None, limits: Limits) -> Result:
    """Put faults into a model and demand that the proof catches each.

    Without an argument the model is a small one that is made for it.
    """
    from pathlib import Path

    from artifactctl import folder, inspection
    from artifactctl.crew import Crew
    from artifactctl.report.progress import progress
    from artifactctl.report.selftest import selftest_data, selftest_text
    from artifactctl.steps import selftest as step

    path = Path(model) if model else None
    if path is not None and path.is_dir():
        inspection.whole_artifact(path)
        path = path / folder.MODEL
    if path is not None:
        inspection.existing_file(path)
    with (
        progress(settings, "selftest", step.STEPS) as say,
        Crew(limits=limits, verbose=settings.verbose) as crew,
    ):
        found = step.selftest(path, model or step.BUILT_IN, crew, say)
    data = selftest_data(found)
    return Result(data, selftest_text(data), step.judge(found))
