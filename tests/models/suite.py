"""The backend test suite that the `onnx` package carries: models with inputs and the outputs they must give.

The node cases are made in memory by the package's own generators; the others are files beside them.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from artifactctl.backends.npz import sample_arrays, write_npz

SUITES = ("node", "simple", "light", "pytorch-converted", "pytorch-operator")
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
REGISTERED = 2  # `isbuiltin` of a type that ml_dtypes adds to numpy

Values = list[Any]
Sets = list[tuple[Values, Values]]


@dataclass(frozen=True)
class Case:
    suite: str
    name: str
    load: Callable[[], tuple[onnx.ModelProto, Sets]]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The model as a file, and a folder of samples: its inputs and the outputs that ship with it."""
        model, sets = self.load()
        path, samples = folder / f"{self.name}.onnx", folder / "samples"
        path.write_bytes(model.SerializeToString())
        samples.mkdir()
        stored = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in stored]
        for position, (inputs, outputs) in enumerate(sets):
            number = f"{position:05d}"
            # an optional without a value has no array; the model is asked without it
            feeds = {name: feed(value) for name, value in zip(names, inputs, strict=True) if value is not None}
            expected: dict[str, Any] = {}
            for value, array in zip(model.graph.output, outputs, strict=True):
                expected |= leaves(value.name, array)
            sample = {"inputs": feeds, "outputs": expected, "labels": None, "follows": False}
            write_npz(samples / f"{number}.npz", sample_arrays(number, sample))
        return path, samples


def cases(suite: str) -> dict[str, Case]:
    found = {"node": _node_cases, "light": _light_cases}.get(suite, functools.partial(_folder_cases, suite))()
    return {case.name: case for case in sorted(found, key=lambda case: case.name)}


def feed(value: Any) -> Any:
    """An input as samples store it: small types that numpy lacks as the next wider one that it has."""
    return [widened(item) for item in value] if isinstance(value, list | tuple) else widened(value)


def leaves(name: str, value: Any) -> dict[str, Any]:
    """An output under the names that the proof gives it; a type that numpy lacks is part of the name."""
    if value is None:
        return {f"{name}.none": np.array(True)}
    if isinstance(value, list | tuple):
        parts: dict[str, Any] = {f"{name}.length": np.array(len(value))}
        for position, item in enumerate(value):
            parts |= leaves(f"{name}[{position}]", item)
        return parts
    array = as_array(value)
    if array.dtype.isbuiltin != REGISTERED:
        return {name: array}
    kind = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype)).lower()
    return {f"{name}.{kind}": widened(array)}


def widened(value: Any) -> np.ndarray[Any, Any]:
    array = as_array(value)
    if array.dtype.isbuiltin != REGISTERED:
        return array
    return array.astype(np.float32 if "float" in array.dtype.name else np.int8)


def as_array(value: Any) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


@functools.cache
def _node_cases() -> list[Case]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators divide by zero and overflow on purpose
        made = load_model_tests(kind="node")
    return [Case("node", test.name, lambda test=test: (test.model, list(test.data_sets))) for test in made]


def _folder_cases(suite: str) -> list[Case]:
    folders = [file.parent for file in (DATA / suite).glob("*/model.onnx")]
    return [Case(suite, folder.name, functools.partial(_read_folder, folder)) for folder in folders]


def _read_folder(folder: Path) -> tuple[onnx.ModelProto, Sets]:
    model = onnx.load(folder / "model.onnx")
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]

    def read(place: Path, part: str, values: Any) -> Values:
        files = sorted(place.glob(f"{part}_*.pb"), key=lambda file: int(re.findall(r"\d+", file.stem)[-1]))
        return [_read_value(file, value.type) for file, value in zip(files, values, strict=True)]

    places = sorted(folder.glob("test_data_set_*"))
    return model, [(read(place, "input", inputs), read(place, "output", model.graph.output)) for place in places]


def _read_value(file: Path, kind: onnx.TypeProto) -> Any:
    content = file.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(TensorProto.FromString(content))


def _light_cases() -> list[Case]:
    """Real architectures with weights that are made on the fly; their input is the one that the suite makes up."""
    return [Case("light", file.stem, functools.partial(_read_light, file)) for file in (DATA / "light").glob("*.onnx")]


def _read_light(file: Path) -> tuple[onnx.ModelProto, Sets]:
    model = onnx.load(file)
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in stored:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    outputs = [
        _read_value(file.with_name(f"{file.stem}_output_{position}.pb"), value.type)
        for position, value in enumerate(model.graph.output)
    ]
    return model, [(inputs, outputs)]
