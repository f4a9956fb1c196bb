"""artifactctl verify"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import (
    Result,
    Seconds,
    Settings,
    common_options,
    limit_options,
    option,
    provider_option,
    require_option,
    trust_options,
)
from artifactctl.errors import ArtifactctlError, ArtifactDamaged, NotEquivalent

if TYPE_CHECKING:
    from artifactctl.policy import Requirement
    from artifactctl.project import Limits
    from artifactctl.steps.signing import Trust


@click.command()
@click.argument("artifact", metavar="ARTIFACT|ZIP")
@provider_option
@option("--reference", metavar="FILE", help="Also compare with this ONNX model on fresh inputs.")
@option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many samples: of golden.npz, or fresh with --reference.",
)
@option(
    "--search",
    type=Seconds(min=0, min_open=True),
    metavar="S",
    help="Look S seconds long for an input on which it differs more; needs the source.",
)
@option("--save-evidence", is_flag=True, help="Write artifact_vN.cells/<provider>.json, which a release asks for.")
@option("--replay", metavar="FILE", help="Only run this kept sample again; ARTIFACT may then be an ONNX file.")
@trust_options
@require_option
@limit_options
@common_options
@click.pass_obj
def verify(
    settings: Settings,
    artifact: str,
    provider: str | None,
    reference: str | None,
    samples: int | None,
    search: float | None,
    save_evidence: bool,
    replay: str | None,
    trust: Trust | None,
    require: tuple[Requirement, ...],
    limits: Limits,
) -> Result:
    """Check an artifact's files, then prove its equivalence again. Runs no code from the artifact."""
    from pathlib import Path

    from artifactctl import archive, folder, inspection, policy
    from artifactctl.crew import Crew
    from artifactctl.report.text import damaged_data, verify_data, verify_text
    from artifactctl.report.trust import required_text
    from artifactctl.steps import demand, reverify, signing

    if replay and (reference or samples or search or require):
        raise click.UsageError(
            "--replay runs one kept sample: leave --reference, --samples, --search and --require out"
        )
    path = Path(artifact)
    if save_evidence and not path.is_dir():
        raise click.UsageError("--save-evidence writes beside an artifact's folder: name the folder")
    is_model = bool(replay) and path.is_file() and not archive.is_package(path)
    for file in filter(None, (reference, replay)):
        inspection.existing_file(Path(file))
    with Crew(limits=limits, verbose=settings.verbose) as crew:
        try:
            signed = signing.check(path, trust, limits, verbose=settings.verbose) if trust else None
            place, found = (path, None) if is_model else inspection.opened(path, crew.scratch)
        except ArtifactDamaged as damage:
            return Result(damaged_data(provider, policy.unjudged(require, "the artifact is damaged")), error=damage)
        worst = reverify.place_for_worst(path, found["model_name"]) if found and not replay else None
        source = Path(reference) if reference else None
        request = reverify.Request(provider, source, samples, search, worst, named=path)
        if replay or found is None:
            model = place if is_model else place / folder.MODEL
            report = reverify.replay(model, Path(replay or ""), found, request, crew)
        else:
            report = reverify.verify_artifact(place, found, request, crew)
            if save_evidence:
                reverify.save_cell(path, found, report, crew)
        findings = demand.judge(require, place, found, report, signed=signed is not None) if found else []
    error: ArtifactctlError | None = None
    kept = None
    if not report.passed:
        kept = worst if worst and worst.exists() else None
        more = f"\nThe worst sample is kept: {folder.shown(kept)}" if kept else ""
        again = f"Run it again: artifactctl verify {artifact} --replay {folder.shown(kept)}" if kept else None
        error = NotEquivalent(f"{artifact} is not equivalent: {report.reason}{more}", hint=again)
    data = verify_data(report, checked=not is_model, worst=kept, signed=signed, findings=findings)
    text = "\n".join([verify_text(path, report, found), *required_text(signed, findings)])
    return Result(data, text, error or policy.problem_of(findings, artifact))
