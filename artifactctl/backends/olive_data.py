"""The samples that a build keeps, as a dataset that Olive's passes calibrate with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from olive.data.registry import Registry
from torch.utils.data import Dataset

from artifactctl.backends.proof import read_sample

NAME = "artifactctl_samples"


class Samples(Dataset[tuple[dict[str, Any], int]]):
    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, position: int) -> tuple[dict[str, Any], int]:
        return read_sample(Path(self._files[position]))["inputs"], 0


def _load(files: list[str], **_: Any) -> Samples:
    return Samples(files)


Registry.register_dataset(NAME)(_load)


def data_config(files: list[str]) -> dict[str, Any]:
    """Each file is a whole batch already."""
    return {
        "name": NAME,
        "type": "DataContainer",
        "load_dataset_config": {"type": NAME, "params": {"files": files}},
        "dataloader_config": {"type": "no_auto_batch_dataloader", "params": {}},
    }
