"""artifactctl sign"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option, signature_option

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("artifact", metavar="ARTIFACT|ZIP")
@option("--private-key", metavar="FILE", help="Sign with this key: EC, PEM; P-256, P-384 or P-521. No network.")
@option("--password", metavar="TEXT", help="Of an encrypted key; better set as ARTIFACTCTL_PASSWORD.")
@option("--keyless", is_flag=True, help="Sign as the CI job that this is, with Sigstore.")
@signature_option
@limit_options
@common_options
@click.pass_obj
def sign(
    settings: Settings,
    artifact: str,
    private_key: str | None,
    password: str | None,
    keyless: bool,
    signature: str | None,
    limits: Limits,
) -> Result:
    """Sign a whole artifact, or a package; the signature is a file beside it."""
    from pathlib import Path

    from artifactctl.report.trust import signed_text
    from artifactctl.steps import signing

    if keyless == bool(private_key):
        raise click.UsageError("say how: either --private-key FILE or --keyless")
    path, place = Path(artifact), Path(signature) if signature else None
    if place and signing.is_inside(place, path):
        raise click.UsageError(f"--signature {signature} lies inside the artifact, which is never changed")
    signer = signing.Signer(Path(private_key) if private_key else None, password)
    made = signing.sign(path, signer, place, limits, verbose=settings.verbose)
    return Result(made.as_json(), signed_text(made))
