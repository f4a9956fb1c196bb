"""Olive's own packaging of one finished model. Its archiver is ours: stored, without clocks, with the artifact."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artifactctl import archive, folder
from artifactctl.errors import OptimizeError

ZIP = "zip"


def olive_package(artifact: str, target: str, place: str, time: list[int], about: dict[str, Any]) -> dict[str, Any]:
    """`target` is the package: Olive's layout beside the whole artifact; `time` is every member's.

    `about` has accelerator, execution_provider, settings, metrics, and in `history` what the model went through.
    """
    from olive.engine.output import WorkflowOutput
    from olive.engine.packaging.packaging_config import PackagingConfig
    from olive.engine.packaging.packaging_generator import generate_output_artifacts
    from olive.hardware.accelerator import AcceleratorSpec

    private = Path(place)
    (private / "out").mkdir(parents=True)
    model = _staged_model(Path(artifact), private)
    accelerator = AcceleratorSpec(about["accelerator"], about["execution_provider"])
    config = PackagingConfig(type="Zipfile", name="package")
    with contextlib.chdir(private), _archiver(Path(artifact), Path(target), time):
        generate_output_artifacts(config, WorkflowOutput(accelerator, _footprint(model, about)), private / "out")
    if not Path(target).is_file():
        raise OptimizeError("Olive's packaging wrote no package; run again with '-v' to see its log")
    return {"size_bytes": Path(target).stat().st_size}


def _staged_model(artifact: Path, private: Path) -> dict[str, Any]:
    """How Olive describes it: a file, or a folder where its data lies beside it."""
    data = artifact / f"{folder.MODEL}.data"
    if not data.exists():
        return {"model_path": str(artifact / folder.MODEL)}
    staged = private / "model"
    staged.mkdir()
    for file in (artifact / folder.MODEL, data):
        _link(file, staged / file.name)
    return {"model_path": str(staged), "onnx_file_name": folder.MODEL}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def _footprint(model: dict[str, Any], about: dict[str, Any]) -> Any:
    from olive.engine.footprint import Footprint, FootprintNodeMetric
    from olive.evaluator.metric_result import MetricResult

    made, parent = Footprint(), None
    for position, step in enumerate(about["history"]):
        last = position == len(about["history"]) - 1
        config = {"type": "ONNXModel", "config": {**model, "inference_settings": about["settings"]}}
        metrics = None
        if last and about["metrics"]:
            values = {
                name: entry | {"priority": rank + 1} for rank, (name, entry) in enumerate(about["metrics"].items())
            }
            ways = {name: 1 if entry["higher_is_better"] else -1 for name, entry in values.items()}
            metrics = FootprintNodeMetric(value=MetricResult.model_validate(values), cmp_direction=ways)
        made.record(
            is_input_model=not position, model_id=step["id"], parent_model_id=parent, from_pass=step["pass"],
            pass_run_config=step["config"], model_config=config, metrics=metrics,
        )  # fmt: skip
        parent = step["id"]
    made.set_output_model_ids([about["history"][-1]["id"]])
    return made


@contextlib.contextmanager
def _archiver(artifact: Path, target: Path, time: list[int]) -> Iterator[None]:
    """Olive asks shutil for a zip: for so long, this is how one is made."""

    def write(base_name: str, base_dir: str, **_: Any) -> str:
        members: dict[str, Path | bytes] = {}
        for name in folder.listing(Path(base_dir)):
            file = Path(base_dir, name).resolve()
            members[name] = _plain_json(file) if file.suffix == ".json" else file
        members |= {f"{artifact.name}/{name}": artifact / name for name in folder.listing(artifact)}
        year, month, day, hour, minute, second = time
        archive.write(target, members, (year, month, day, hour, minute, second))
        Path(f"{base_name}.zip").touch()  # what Olive moves to its output folder
        return f"{base_name}.zip"

    shutil.unregister_archive_format(ZIP)
    shutil.register_archive_format(ZIP, write, description="artifactctl's own")
    try:
        yield
    finally:
        shutil.unregister_archive_format(ZIP)
        shutil.register_archive_format(ZIP, shutil._make_zipfile)  # type: ignore[attr-defined]


def _plain_json(file: Path) -> bytes:
    """The same text for the same content."""
    return (json.dumps(json.loads(file.read_text(encoding="utf-8")), indent=1, sort_keys=True) + "\n").encode()
