"""artifactctl package"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("artifact")
@option(
    "--format", "form", type=click.Choice(["zip", "ortpackage"]), default="zip",
    help="Olive's zip, or the folder that ONNX Runtime opens  [default: zip]",
)  # fmt: skip
@option("--output", metavar="DIR", default="dist", help="Where the package goes  [default: dist]")
@limit_options
@common_options
@click.pass_obj
def package(settings: Settings, artifact: str, form: str, output: str, limits: Limits) -> Result:
    """Write the Olive zip with the whole artifact in it; open it again and prove it.

    The same artifact gives the same bytes on every machine. `--format ortpackage` writes ONNX Runtime's own model
    package instead: the model with its session settings, opened again by ONNX Runtime 1.31 or newer.
    """
    from pathlib import Path

    from artifactctl.crew import Crew
    from artifactctl.report.progress import progress
    from artifactctl.report.release import package_data, package_text
    from artifactctl.steps.ortpackage import ort_package
    from artifactctl.steps.package import package as zip_package

    make = ort_package if form == "ortpackage" else zip_package
    with Crew(limits=limits, verbose=settings.verbose) as crew, progress(settings, "package", 2) as say:
        made = make(Path(artifact), Path(output), crew, say)
    return Result(package_data(made), package_text(made))
