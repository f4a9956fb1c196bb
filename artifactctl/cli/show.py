"""artifactctl show"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options


@click.command()
@click.argument("model", metavar="[MODEL[@vN]]", required=False)
@common_options
@click.pass_obj
def show(settings: Settings, model: str | None) -> Result:
    """Show released models, their versions and stages, as the tags of the repository tell them."""
    from artifactctl.report.registry import model_data, model_text, models_data, models_text, version_text
    from artifactctl.steps.registry import find, read

    if model is None:
        models = read()
        return Result(models_data(models), models_text(models))
    entry, version = find(model)
    if version is None:
        return Result(model_data(entry), model_text(entry))
    return Result(model_data(entry, version), version_text(version))
