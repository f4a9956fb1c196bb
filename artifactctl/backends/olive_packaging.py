"""Olive's own packaging of one finished model. Its archiver is ours: stored, without clocks, with the artifact."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
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
    stand_ins = _stand_ins(Path(artifact))
    model = _staged_model(stand_ins, private / "model")
    accelerator = AcceleratorSpec(about["accelerator"], about["execution_provider"])
    config = PackagingConfig(type="Zipfile", name="package")
    with contextlib.chdir(private), _archiver(Path(artifact), Path(target), time, stand_ins):
        generate_output_artifacts(config, WorkflowOutput(accelerator, _footprint(model, about)), private / "out")
    if not Path(target).is_file():
        raise OptimizeError("Olive's packaging wrote no package; run again with '-v' to see its log")
    return {"size_bytes": Path(target).stat().st_size}


def _stand_ins(artifact: Path) -> dict[str, bytes]:
    """The model's files by name, each a line of text: Olive lays out names, and need not copy gigabytes for that."""
    digests = _digests(artifact)
    names = [name for name in (folder.MODEL, f"{folder.MODEL}.data") if (artifact / name).exists()]
    return {name: f"{digests[name]}  {name}\n".encode() for name in names}


def _digests(artifact: Path) -> dict[str, str]:
    """Which were found right before this process was asked; the package is compared with them when it is opened."""
    return folder.parse_sums((artifact / folder.SUMS).read_bytes())[0]


def _staged_model(stand_ins: Mapping[str, bytes], staged: Path) -> dict[str, Any]:
    """How Olive describes it: a file, or a folder where its data lies beside it."""
    staged.mkdir()
    for name, content in stand_ins.items():
        (staged / name).write_bytes(content)
    if len(stand_ins) == 1:
        return {"model_path": str(staged / folder.MODEL)}
    return {"model_path": str(staged), "onnx_file_name": folder.MODEL}


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
def _archiver(artifact: Path, target: Path, time: list[int], stand_ins: Mapping[str, bytes]) -> Iterator[None]:
    """Olive asks shutil for a zip: for so long, this is how one is made."""
    digests = _digests(artifact)

    def write(base_name: str, base_dir: str, **_: Any) -> str:
        members, meant = _laid_out(Path(base_dir), stand_ins)
        if sorted(meant.values()) != sorted(stand_ins):
            raise OptimizeError("Olive's packaging lost the model, or has it twice; use the tested version of olive-ai")
        members |= {name: artifact / file for name, file in meant.items()}
        inside = {f"{artifact.name}/{name}": name for name in folder.listing(artifact)}
        members |= {name: artifact / file for name, file in inside.items()}
        known = {name: digests[file] for name, file in {**meant, **inside}.items() if file in digests}
        year, month, day, hour, minute, second = time
        archive.write(target, members, (year, month, day, hour, minute, second), known)
        Path(f"{base_name}.zip").touch()  # what Olive moves to its output folder
        return f"{base_name}.zip"

    shutil.unregister_archive_format(ZIP)
    shutil.register_archive_format(ZIP, write, description="artifactctl's own")
    try:
        yield
    finally:
        shutil.unregister_archive_format(ZIP)
        shutil.register_archive_format(ZIP, shutil._make_zipfile)  # type: ignore[attr-defined]


def _laid_out(base: Path, stand_ins: Mapping[str, bytes]) -> tuple[dict[str, Path | bytes], dict[str, str]]:
    """What Olive wrote itself, and by member the file of the artifact that it is to be."""
    contents = {name: (base / name).read_bytes() for name in folder.listing(base)}
    names = {content: name for name, content in stand_ins.items()}
    meant = {member: names[content] for member, content in contents.items() if content in names}
    own: dict[str, Path | bytes] = {}
    for member, content in contents.items():
        if member not in meant:
            own[member] = _plain_json(content) if member.endswith(".json") else content
    return own, meant


def _plain_json(content: bytes) -> bytes:
    """The same text for the same content."""
    return (json.dumps(json.loads(content), indent=1, sort_keys=True) + "\n").encode()
