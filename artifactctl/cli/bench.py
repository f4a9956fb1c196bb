"""artifactctl bench"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import (
    Result,
    Seconds,
    Settings,
    common_options,
    limit_options,
    max_regression_option,
    option,
    provider_option,
)
from artifactctl.errors import ArtifactctlError

if TYPE_CHECKING:
    from artifactctl.project import Budgets, Latency, Limits, Project
    from artifactctl.steps.bench import Bench


@click.command()
@click.argument("target", metavar="ARTIFACT|FILE", required=False)
@option("--against", metavar="ARTIFACT|FILE", help="The baseline  [default: the version before, else the source]")
@provider_option
@max_regression_option
@option("--budget", type=Seconds(min=0, min_open=True), metavar="S", help="Seconds  [default: latency.budget_s]")
@option("--save-baseline", is_flag=True, help="Write baselines/<model>.<provider>.json.")
@option("--export", metavar="FILE.zip", help="Do not run: write a bundle for a machine without artifactctl.")
@option("--import", "result", metavar="RESULT.json", help="Do not run: judge what a bundle's bench.py brought back.")
@option("--markdown", is_flag=True, help="The table as Markdown.")
@limit_options
@common_options
@click.pass_obj
def bench(
    settings: Settings,
    target: str | None,
    against: str | None,
    provider: str | None,
    max_regression: float | None,
    budget: float | None,
    save_baseline: bool,
    export: str | None,
    result: str | None,
    markdown: bool,
    limits: Limits,
) -> Result:
    """Time a model against a baseline, in pairs, until slower or not slower is proved."""
    from pathlib import Path

    from artifactctl.crew import Crew
    from artifactctl.report.bench import export_text
    from artifactctl.report.progress import progress
    from artifactctl.steps import bench as step
    from artifactctl.steps import remote
    from artifactctl.steps.sides import default_baseline, side_named, side_of

    _demand_sense(target, result, {"--against": against, "--provider": provider, "--budget": budget}, export)
    project = settings.project()
    root = project.root if project else Path.cwd()
    candidate = side_of(Path(target)) if target else None
    if result is not None:
        brought = remote.read_result(Path(result))
        asked = brought["about"]
        latency, budgets = _wanted(project, asked["candidate"]["name"], max_regression, None, asked)
        found = remote.judge_result(brought, candidate, latency, budgets, root)
        return _told(found, root if save_baseline else None, markdown=markdown)
    assert candidate is not None
    latency, budgets = _wanted(project, candidate.name, max_regression, budget)
    with Crew(limits=limits, verbose=settings.verbose) as crew, progress(settings, "bench", 2) as say:
        baseline = side_named(against, crew.scratch) if against else default_baseline(candidate, crew.scratch)
        if export is not None:
            data = remote.export(candidate, baseline, latency, provider, Path(export), crew)
            return Result(data, export_text(data))
        found = step.bench(candidate, baseline, latency, budgets, provider, root, crew, say)
    return _told(found, root if save_baseline else None, markdown=markdown)


def _demand_sense(target: str | None, result: str | None, live: dict[str, object], export: str | None) -> None:
    if result is None and target is None:
        raise click.UsageError("Missing argument 'ARTIFACT|FILE'.")
    given = [name for name, value in live.items() if value is not None]
    if result is not None and (given or export):
        raise click.UsageError(
            f"--import judges what was measured elsewhere; {(*given, '--export')[0]} cannot change it."
        )


def _wanted(
    project: Project | None,
    name: str,
    max_regression: float | None,
    budget: float | None,
    asked: dict[str, float] | None = None,
) -> tuple[Latency, Budgets]:
    """The configuration's, where it knows the model; else what a bundle was made with; options go before both."""
    from dataclasses import replace

    from artifactctl.project import Budgets, Latency

    known = project.models.get(name) if project else None
    latency, budgets = (known.latency, known.budgets) if known else (Latency(), Budgets())
    if asked and not known:
        latency = replace(latency, max_regression=asked["max_regression"], confidence=asked["confidence"])
    if max_regression is not None:
        latency = replace(latency, max_regression=max_regression)
    return (latency if budget is None else replace(latency, budget_s=budget)), budgets


def _told(found: Bench, root: object, *, markdown: bool) -> Result:
    """`root` is where the baseline is to be saved, if it is."""
    from pathlib import Path

    from artifactctl import baselines, jsontext
    from artifactctl.folder import shown
    from artifactctl.report.bench import bench_data, bench_text
    from artifactctl.steps.bench import saved_baseline

    path = None
    if root is not None:
        path = baselines.path_of(Path(str(root)), found.subject.name, found.session.provider)
        jsontext.write(path, saved_baseline(found))
    saved = f"\nsaved     {shown(path)}" if path else ""
    return Result(bench_data(found, path), bench_text(found, markdown=markdown) + saved, _worst(found.problems))


def _worst(problems: tuple[ArtifactctlError, ...]) -> ArtifactctlError | None:
    """What is proved wrong goes before what is not proved."""
    if not problems:
        return None
    first = min(problems, key=lambda problem: problem.exit_code)
    return type(first)("\n".join(str(problem) for problem in problems), hint=first.hint)
