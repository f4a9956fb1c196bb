"""artifactctl matrix"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options, option


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@option("--provider", multiple=True, metavar="P", help="Only this one of the configured providers; repeatable.")
@option("--runner", multiple=True, metavar="P=LABEL[,LABEL…]", help="The runner of a provider; repeatable.")
@option("--gpu-runner", metavar="LABEL", help="The runner of cuda and tensorrt.")
@option(
    "--format",
    "form",
    type=click.Choice(["json", "github"]),
    help="json: as --json; github: only the object that strategy.matrix takes, on one line.",
)
@common_options
@click.pass_obj
def matrix(
    settings: Settings,
    models: tuple[str, ...],
    provider: tuple[str, ...],
    runner: tuple[str, ...],
    gpu_runner: str | None,
    form: str | None,
) -> Result:
    """List the cells for CI: each model of artifactctl.yaml on each provider that it names.

    A provider that GitHub has no runner for takes its label from --runner or --gpu-runner; without one there is no
    matrix, rather than a cell that never runs.
    """
    import json

    from artifactctl import matrix as cells_of
    from artifactctl.errors import ConfigError
    from artifactctl.report.text import matrix_text

    project = settings.project()
    if project is None:
        raise ConfigError("there is no artifactctl.yaml here", hint="Run 'artifactctl init', or name it: --config FILE")
    runners = cells_of.parse_runners(runner, gpu_runner)
    found = [cell.as_json() for cell in cells_of.cells(project.models, models, provider, runners)]
    data = {"include": found}
    settings.json = settings.json or form == "json"
    return Result(data, json.dumps(data, ensure_ascii=False) if form == "github" else matrix_text(found))
