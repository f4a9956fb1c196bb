"""artifactctl doctor"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options


@click.command()
@common_options
@click.pass_obj
def doctor(settings: Settings) -> Result:
    """Show this machine: versions, providers, git, what is missing and the line that installs it."""
    from artifactctl.diagnosis import diagnose
    from artifactctl.report.text import doctor_text

    data = diagnose(verbose=settings.verbose)
    return Result(data, doctor_text(data))
