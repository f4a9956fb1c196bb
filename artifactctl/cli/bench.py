"""artifactctl bench"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Seconds, Settings, common_options, limit_options, option, provider_option
from artifactctl.errors import ArtifactctlError

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("target", metavar="ARTIFACT|FILE")
@option("--against", metavar="ARTIFACT|FILE", help="The baseline  [default: the version before, else the source]")
@provider_option
@option("--max-regression", metavar="5%", help="How much slower it may be  [default: latency.max_regression]")
@option("--budget", type=Seconds(min=0, min_open=True), metavar="S", help="Seconds  [default: latency.budget_s]")
@option("--save-baseline", is_flag=True, help="Write baselines/<model>.<provider>.json.")
@option("--markdown", is_flag=True, help="The table as Markdown.")
@limit_options
@common_options
@click.pass_obj
def bench(
    settings: Settings,
    target: str,
    against: str | None,
    provider: str | None,
    max_regression: str | None,
    budget: float | None,
    save_baseline: bool,
    markdown: bool,
    limits: Limits,
) -> Result:
    """Time a model against a baseline, in pairs, until slower or not slower is proved."""
    from dataclasses import replace
    from pathlib import Path

    from artifactctl import baselines
    from artifactctl.crew import Crew
    from artifactctl.folder import shown
    from artifactctl.project import Budgets, Latency
    from artifactctl.report.bench import bench_data, bench_text
    from artifactctl.report.progress import progress
    from artifactctl.steps import bench as step
    from artifactctl.steps.sides import default_baseline, side_of

    candidate = side_of(Path(target))
    project = settings.project()
    known = project.models.get(candidate.name) if project else None
    latency, budgets = (known.latency, known.budgets) if known else (Latency(), Budgets())
    if max_regression is not None:
        latency = replace(latency, max_regression=_share(max_regression))
    if budget is not None:
        latency = replace(latency, budget_s=budget)
    root = project.root if project else Path.cwd()
    with Crew(limits=limits, verbose=settings.verbose) as crew, progress(settings, "bench", 2) as say:
        baseline = side_of(Path(against)) if against else default_baseline(candidate, crew.scratch)
        found = step.bench(candidate, baseline, latency, budgets, provider, root, crew, say)
    path = None
    if save_baseline:
        path = baselines.path_of(root, candidate.name, found.session.provider)
        baselines.write(path, step.saved_baseline(found, candidate))
    text = bench_text(found, candidate, markdown=markdown)
    saved = f"\nsaved     {shown(path)}" if path else ""
    return Result(bench_data(found, path), text + saved, _worst(found.problems))


def _share(text: str) -> float:
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise click.BadParameter(f"{text!r} is not a share such as 5% or 0.05", param_hint="--max-regression")
    return value


def _worst(problems: tuple[ArtifactctlError, ...]) -> ArtifactctlError | None:
    """What is proved wrong goes before what is not proved."""
    if not problems:
        return None
    first = min(problems, key=lambda problem: problem.exit_code)
    return type(first)("\n".join(str(problem) for problem in problems), hint=first.hint)
