"""artifactctl init"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options, option


@click.command()
@option("--workflow", is_flag=True, help="Also write a GitHub workflow.")
@option("--pre-commit", is_flag=True, help="Also write a pre-commit entry.")
@common_options
@click.pass_obj
def init(settings: Settings, workflow: bool, pre_commit: bool) -> Result:
    """Write artifactctl.yaml for the models found here. Existing files are never changed."""
    from artifactctl import scaffold

    wanted = scaffold.wanted_files(settings.config_path, workflow=workflow, pre_commit=pre_commit)
    files = scaffold.write_missing(wanted)
    return Result({"files": files}, scaffold.describe(files, wanted))
