"""artifactctl yank"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options, option


@click.command()
@click.argument("model", metavar="MODEL@vN")
@option("--reason", required=True, metavar="TEXT", help="Why nobody should use it any more.")
@option("--push", is_flag=True, help="Also push the tag that says so.")
@option("--remote", metavar="NAME", help="Where to push  [default: the branch's own, else origin]")
@common_options
@click.pass_obj
def yank(settings: Settings, model: str, reason: str, push: bool, remote: str | None) -> Result:
    """Withdraw a released version: a tag is added that says why; nothing is deleted."""
    from artifactctl.steps.registry import yank as step

    said = step(model, reason, push=push, remote=remote)
    return Result(said.data(), said.text())
