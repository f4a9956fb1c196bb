"""The samples that a build keeps, as a dataset that Olive's passes calibrate with."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from olive.data.registry import Registry
from onnxruntime.quantization import CalibrationMethod
from torch.utils.data import Dataset

from artifactctl.backends.proof import read_sample

NAME = "artifactctl_samples"
BINS = 512  # of a histogram; more of them take longer, by their square


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


@contextlib.contextmanager
def fine_histograms() -> Iterator[None]:
    """ONNX Runtime collects as many bins for Entropy as it keeps, so that nothing is left to choose: MinMax again."""
    quantize = importlib.import_module("onnxruntime.quantization.quantize")  # a function hides the module of that name
    made = quantize.create_calibrator

    def create(*args: Any, **settings: Any) -> Any:
        if settings.get("calibrate_method") == CalibrationMethod.Entropy:
            settings["extra_options"] = {**settings.get("extra_options", {}), "num_bins": BINS}
        return made(*args, **settings)

    quantize.create_calibrator = create  # type: ignore[attr-defined]
    try:
        yield
    finally:
        quantize.create_calibrator = made  # type: ignore[attr-defined]


def data_config(files: list[str]) -> dict[str, Any]:
    """Each file is a whole batch already."""
    return {
        "name": NAME,
        "type": "DataContainer",
        "load_dataset_config": {"type": NAME, "params": {"files": files}},
        "dataloader_config": {"type": "no_auto_batch_dataloader", "params": {}},
    }
