"""artifactctl inspect"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option

if TYPE_CHECKING:
    from pathlib import Path

    from artifactctl.project import Limits


@click.command()
@click.argument("target", metavar="ARTIFACT|ZIP|FILE")
@option("--inputs", "explain", is_flag=True, help="Also run it, and explain which inputs it is tried on and why.")
@limit_options
@common_options
@click.pass_obj
def inspect(settings: Settings, target: str, explain: bool, limits: Limits) -> Result:
    """Show a model: IR, opset, inputs, outputs, operators, parameters, precision, portability."""
    from pathlib import Path

    from artifactctl import archive, folder, inspection
    from artifactctl.crew import Crew
    from artifactctl.report.text import inspect_text
    from artifactctl.steps.export import explain_inputs
    from artifactctl.steps.portable import look

    path = Path(target)
    with Crew(limits=limits, verbose=settings.verbose) as crew:
        is_artifact = path.is_dir() or archive.is_package(path)
        place, artifact = inspection.opened(path, crew.scratch) if is_artifact else (path, None)
        model = place / folder.MODEL if artifact else path
        inspection.existing_file(model)
        data = look(model.resolve(), crew)
        if explain and artifact:
            data["plan"] = {"outside": []} | artifact["reference"]["samples"]  # what it was proved on
        elif explain:
            data["plan"] = explain_inputs(model.resolve(), crew.scratch, crew, _declared(settings, model))
    data = {"path": target} | data
    if artifact:
        keys = ("model_name", "version", "precision", "optimization", "runtime", "latency_ms", "accuracy_drop")
        data["artifact"] = {key: artifact[key] for key in keys}
    return Result(data, inspect_text(data))


def _declared(settings: Settings, model: Path) -> dict[str, Any]:
    """What the configuration says about the inputs of this file."""
    from dataclasses import asdict

    project = settings.project()
    for known in project.models.values() if project else ():
        if (
            project
            and known.source.kind == "onnx"
            and (project.root / known.source.target).resolve() == model.resolve()
        ):
            return {name: asdict(spec) for name, spec in known.source.inputs.items()}
    return {}
