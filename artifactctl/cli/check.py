"""artifactctl check"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@common_options
@click.pass_obj
def check(settings: Settings, paths: tuple[str, ...]) -> Result:
    """Check configurations and artifacts against their schemas and rules. Nothing is run."""
    from pathlib import Path

    from artifactctl import inspection
    from artifactctl.report.text import mark

    checked = inspection.check([Path(path) for path in paths], settings.config_path)
    data = [
        {
            "path": item.path,
            "kind": item.kind,
            "ok": not item.problems,
            "problems": [str(problem) for problem in item.problems],
            "warnings": item.warnings,
        }
        for item in checked
    ]
    lines = []
    for item in checked:
        lines += [f"{mark(not item.problems)} {item.path}", *(f"warning   {text}" for text in item.warnings)]
    problems = [problem for item in checked for problem in item.problems]
    if not problems:
        return Result({"checked": data}, "\n".join(lines))
    first = problems[0]
    joined = "\n".join(str(problem) for problem in problems)
    return Result({"checked": data}, "\n".join(lines), type(first)(joined, hint=first.hint))
