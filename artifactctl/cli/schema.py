"""artifactctl schema"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options


@click.command()
@click.argument("name")
@common_options
@click.pass_obj
def schema(settings: Settings, name: str) -> Result:
    """Print a JSON Schema: config, metadata, report, equivalence or latency."""
    import json

    from artifactctl import schema as schemas
    from artifactctl.resources import schema_names

    if name not in schema_names():
        raise click.BadParameter(f"{name!r} is not one of {', '.join(schema_names())}", param_hint="NAME")
    data = schemas.load(name)
    return Result(data, json.dumps(data, indent=2, ensure_ascii=False))
