"""artifactctl verify"""

from __future__ import annotations

from pathlib import Path

import click

from artifactctl.cli.options import Result, Settings, common_options, option, provider_option
from artifactctl.errors import NotEquivalent


@click.command()
@click.argument("artifact", type=click.Path(path_type=Path))
@provider_option
@option(
    "--reference",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also compare with this ONNX model on fresh inputs.",
)
@option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many samples: of golden.npz, or fresh with --reference.",
)
@common_options
@click.pass_obj
def verify(
    settings: Settings, artifact: Path, provider: str | None, reference: Path | None, samples: int | None
) -> Result:
    """Check an artifact's files, then prove its equivalence again. Runs no code from the artifact."""
    import tempfile

    from artifactctl import inspection
    from artifactctl.crew import Crew
    from artifactctl.report.text import verify_data, verify_text
    from artifactctl.steps.verify import verify_artifact

    found = inspection.whole_artifact(artifact)
    if reference is not None:
        inspection.existing_file(reference)
    with tempfile.TemporaryDirectory() as scratch, Crew(Path(scratch), Path.cwd(), verbose=settings.verbose) as crew:
        report = verify_artifact(artifact, found, crew, provider=provider, reference=reference, samples=samples)
    error = None
    if not report.passed:
        error = NotEquivalent(f"{artifact} is not equivalent: {report.reason}")
    return Result(verify_data(report), verify_text(artifact, report), error)
