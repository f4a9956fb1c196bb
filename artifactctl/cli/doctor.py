"""artifactctl doctor"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options, option


@click.command()
@option("--mend", is_flag=True, help="Remove what killed builds and releases left behind.")
@common_options
@click.pass_obj
def doctor(settings: Settings, mend: bool) -> Result:
    """Show this machine: versions, providers, git, what is missing and the line that installs it.

    Also what a killed build or release left behind here.
    """
    from dataclasses import asdict
    from pathlib import Path

    from artifactctl import leftovers
    from artifactctl.diagnosis import diagnose
    from artifactctl.folder import shown
    from artifactctl.report.text import doctor_text

    project = settings.project()
    root = project.root if project else Path.cwd()
    found = leftovers.find(root)
    removed = leftovers.mend(found) if mend else []
    data = diagnose(store=project.release.store if project else "git", verbose=settings.verbose)
    data["leftovers"] = [
        asdict(item) | {"path": shown(item.path) if item.path else None, "removed": item in removed} for item in found
    ]
    return Result(data, doctor_text(data))
