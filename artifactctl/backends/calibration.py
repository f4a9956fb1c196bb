"""The user's calibration data: checked against the model before Olive is asked, then kept as samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from artifactctl.backends import core
from artifactctl.backends.messages import first_line
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.proof import read_sample
from artifactctl.backends.userdata import load_arrays, read_data
from artifactctl.errors import ConfigError, SourceError

MOST_SETS = 64  # what is read beyond this hardly moves a range any more


def write_calibration(plan: dict[str, Any], calibration: str, folder: str) -> list[str]:
    """One .npz a set, all of one size: histograms of several sizes cannot be added up. Returns the files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    file = Path(calibration)
    _demand_finite(file)
    files: list[str] = []
    rows: tuple[int, ...] | None = None
    for feeds, _ in read_data(plan, file, None):
        sizes = tuple(len(array) if array.ndim else 0 for array in feeds.values())
        rows = rows or sizes
        if sizes != rows or len(files) == MOST_SETS:
            break
        number = f"{len(files):05d}"
        sample = {"inputs": feeds, "outputs": {}, "labels": None, "follows": False}
        write_npz(target / f"{number}.npz", sample_arrays(number, sample))
        files.append(str(target / f"{number}.npz"))
    return files


def demand_taken(path: str, settings: dict[str, Any], files: list[str]) -> None:
    """The model answers each of them: no shape and no dtype tells which numbers it takes."""
    session = core.open_session(path, core.as_written(settings))
    for number, file in enumerate(files):
        try:
            core.run(session, read_sample(Path(file))["inputs"])
        except core.runtime_errors() as error:
            message = f"the source refuses data.calibration (set {number} of {len(files)}): {first_line(error, path)}"
            hint = "Check the numbers of the calibration data against those that the model takes."
            raise SourceError(message, hint=hint) from None


def _demand_finite(file: Path) -> None:
    for name, array in load_arrays(file).items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0]
            value = array[tuple(place)]
            raise ConfigError(
                f"{file.name}: {name!r} has {value} at {place.tolist()}, which gives no range to calibrate with",
                hint="Calibrate with inputs as the model gets them; leave out rows with NaN or infinity.",
            )
