"""Project -> SourceModel: read the user's files once, into the scratch folder, and know their digests."""

from __future__ import annotations

from pathlib import Path

from artifactctl import folder
from artifactctl.crew import Crew
from artifactctl.folder import FileDigest
from artifactctl.inputs import check_files, declared_files, recorded_name
from artifactctl.project import ModelConfig
from artifactctl.records import SourceModel


def read_source(config: ModelConfig, root: Path, scratch: Path, crew: Crew) -> SourceModel:
    check_files(config, root)
    files = [folder.file_digest(path, name) for name, path in declared_files(config, root).items()]
    if config.source.kind != "onnx":
        return SourceModel(config, root, root / config.source.target, tuple(files))
    origin = root / config.source.target
    staged = crew.ask("runner", "stage_onnx", source=str(origin), folder=str(scratch / "source"))
    beside = Path(config.source.target).parent
    model, *external = staged["files"]
    files[0] = FileDigest(recorded_name(config.source.target), model["sha256"], model["size_bytes"])
    files += [
        FileDigest((beside / entry["name"]).as_posix(), entry["sha256"], entry["size_bytes"]) for entry in external
    ]
    return SourceModel(config, root, Path(staged["path"]), tuple(files))
