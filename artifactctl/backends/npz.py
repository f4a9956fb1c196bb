"""Archives of arrays whose bytes depend on the arrays alone."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from artifactctl import zips

Array = np.ndarray[Any, Any]


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            stored = array.astype(str) if array.dtype == object else np.ascontiguousarray(array).reshape(array.shape)
            np.lib.format.write_array(buffer, stored, allow_pickle=False)
            archive.writestr(zips.entry(f"{name}.npy"), buffer.getvalue())


def sample_arrays(number: str, sample: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of one sample under the names that `read_golden` knows; a sequence is its length and its items."""
    arrays: dict[str, Array] = {}
    for part in ("inputs", "outputs"):
        for name, value in sample[part].items():
            key = f"{number}/{part}/{quote(name, safe='')}"
            if isinstance(value, list):
                arrays[f"{key}/length"] = np.array(len(value))
                arrays |= {f"{key}/{position}": item for position, item in enumerate(value)}
            else:
                arrays[key] = value
    if sample["follows"]:
        arrays[f"{number}/follows/"] = np.array(True)
    return arrays if sample["labels"] is None else arrays | {f"{number}/labels/": sample["labels"]}
