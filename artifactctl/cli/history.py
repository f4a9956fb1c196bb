"""artifactctl history"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options


@click.command()
@click.argument("model")
@common_options
@click.pass_obj
def history(settings: Settings, model: str) -> Result:
    """Show everything that happened to a model: releases, stages, withdrawals, oldest first."""
    from artifactctl.report.registry import history_data, history_text
    from artifactctl.steps.registry import find

    entry, _ = find(model)
    return Result(history_data(entry), history_text(entry))
