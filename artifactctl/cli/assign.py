"""artifactctl assign"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options, option


@click.command()
@click.argument("model", metavar="MODEL@vN")
@click.argument("stage")
@option("--push", is_flag=True, help="Also push the tag that says so.")
@option("--remote", metavar="NAME", help="Where to push  [default: the branch's own, else origin]")
@common_options
@click.pass_obj
def assign(settings: Settings, model: str, stage: str, push: bool, remote: str | None) -> Result:
    """Give a released version a stage (dev, staging, prod or your own); nothing that was said before is changed."""
    from artifactctl.steps.registry import assign as step

    said = step(model, stage, push=push, remote=remote)
    return Result(said.data(), said.text())
