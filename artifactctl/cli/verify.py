"""artifactctl verify"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option, provider_option
from artifactctl.errors import ArtifactDamaged, NotEquivalent

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("artifact")
@provider_option
@option(
    "--reference",
    metavar="FILE",
    help="Also compare with this ONNX model on fresh inputs.",
)
@option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many samples: of golden.npz, or fresh with --reference.",
)
@limit_options
@common_options
@click.pass_obj
def verify(
    settings: Settings, artifact: str, provider: str | None, reference: str | None, samples: int | None, limits: Limits
) -> Result:
    """Check an artifact's files, then prove its equivalence again. Runs no code from the artifact."""
    from pathlib import Path

    from artifactctl import inspection
    from artifactctl.crew import Crew
    from artifactctl.report.text import damaged_data, verify_data, verify_text
    from artifactctl.steps.verify import verify_artifact

    folder, source = Path(artifact), Path(reference) if reference else None
    try:
        found = inspection.whole_artifact(folder)
    except ArtifactDamaged as damage:
        return Result(damaged_data(provider), error=damage)
    if source is not None:
        inspection.existing_file(source)
    with Crew(limits=limits, verbose=settings.verbose) as crew:
        report = verify_artifact(folder, found, crew, provider=provider, reference=source, samples=samples)
    error = None
    if not report.passed:
        error = NotEquivalent(f"{artifact} is not equivalent: {report.reason}")
    return Result(verify_data(report), verify_text(folder, report), error)
