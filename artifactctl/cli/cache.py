"""artifactctl cache"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options, option


@click.command()
@click.argument("action", type=click.Choice(["info", "clear"]), metavar="info|clear")
@option("--older-than", type=click.FloatRange(min=0), metavar="DAYS",
        help="clear only what no build has used for so many days.")  # fmt: skip
@common_options
@click.pass_obj
def cache(settings: Settings, action: str, older_than: float | None) -> Result:
    """Show or empty the cache of what recipes made: place, entries, bytes, oldest.

    It lies where this system keeps caches, or in ARTIFACTCTL_CACHE. Proofs and measurements are never in it.
    """
    from artifactctl import upkeep
    from artifactctl.report.upkeep import clear_text, info_text

    if action == "clear":
        data = upkeep.clear(older_than)
        return Result(data, clear_text(data))
    if older_than is not None:
        raise click.UsageError("--older-than goes with clear")
    data = upkeep.info()
    return Result(data, info_text(data))
