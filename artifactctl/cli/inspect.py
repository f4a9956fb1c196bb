"""artifactctl inspect"""

from __future__ import annotations

import click

from artifactctl.cli.options import Result, Settings, common_options


@click.command()
@click.argument("target", metavar="ARTIFACT|FILE")
@common_options
@click.pass_obj
def inspect(settings: Settings, target: str) -> Result:
    """Show a model: IR, opset, inputs, outputs, operators, parameters, precision, portability. It is not run."""
    import tempfile
    from pathlib import Path

    from artifactctl import folder, inspection
    from artifactctl.errors import SourceError
    from artifactctl.process import Worker, WorkerDied
    from artifactctl.report.text import inspect_text

    path = Path(target)
    artifact = inspection.whole_artifact(path) if path.is_dir() else None
    model = path / folder.MODEL if artifact else path
    inspection.existing_file(model)
    with tempfile.TemporaryDirectory() as scratch, Worker("inspect", Path(scratch), verbose=settings.verbose) as worker:
        try:
            data = worker.call("inspect", path=str(model.resolve()), timeout_s=600)
        except WorkerDied as error:
            raise SourceError(f"{target} cannot be inspected: onnx {error.why}\n{error.log}") from None
    data = {"path": target} | data
    if artifact:
        keys = ("model_name", "version", "precision", "optimization", "runtime", "latency_ms", "accuracy_drop")
        data["artifact"] = {key: artifact[key] for key in keys}
    return Result(data, inspect_text(data))
