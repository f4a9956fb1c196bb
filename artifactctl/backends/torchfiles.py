"""Files that torch wrote: what each one is, read without running code from it."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from artifactctl.errors import SourceError

_NAMES = {
    "torchscript": "a TorchScript file",
    "exported_program": "an exported program (.pt2)",
    "pickle": "a pickled model or a state dict",
    "other": "not a file that torch wrote",
}
_USE = {
    "torchscript": "Name it as 'torchscript: FILE' in artifactctl.yaml.",
    "exported_program": "Name it as 'exported_program: FILE' in artifactctl.yaml.",
    "pickle": "Write a factory and name both: 'torch: file.py:build' and 'weights: FILE'.",
    "other": "Save it again with torch.jit.save, torch.export.save or safetensors.",
}


def kind_of(path: Path) -> str:
    """By what lies in the zip, before anything is loaded."""
    if not path.is_file():
        raise SourceError(f"{path.name} is missing", hint="Check the path; it is relative to artifactctl.yaml.")
    if not zipfile.is_zipfile(path):
        return "pickle" if path.open("rb").read(1) == b"\x80" else "other"
    try:
        names = ["/" + name for name in zipfile.ZipFile(path).namelist()]
    except zipfile.BadZipFile:
        return "other"
    if any("/code/" in name for name in names):
        return "torchscript"
    if any(
        "/data/weights/" in name or "/models/" in name or name.endswith("serialized_exported_program.json")
        for name in names
    ):
        return "exported_program"
    return "pickle" if any(name.endswith("/data.pkl") for name in names) else "other"


def _expect(path: Path, wanted: str) -> None:
    kind = kind_of(path)
    if kind != wanted:
        raise SourceError(f"{path.name} is {_NAMES[kind]}, not {_NAMES[wanted]}", hint=_USE[kind])


def load_script(path: Path) -> Any:
    _expect(path, "torchscript")
    try:
        return torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        raise SourceError(f"{path.name} is damaged: {error}", hint="Save it again with torch.jit.save.") from None


def load_program(path: Path) -> Any:
    _expect(path, "exported_program")
    try:
        with _only_weights():
            return torch.export.load(str(path))
    except (RuntimeError, ValueError, KeyError, OSError, AssertionError, pickle.UnpicklingError) as error:
        raise SourceError(f"{path.name} is damaged: {error}", hint="Save it again with torch.export.save.") from None


@contextmanager
def _only_weights() -> Iterator[None]:
    """torch.export.load falls back to a pickle that may run any code; here the fall-back is as careful as the rest."""
    original = torch.load

    def careful(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **(options | {"weights_only": True}))

    torch.load = careful
    try:
        yield
    finally:
        torch.load = original


def load_weights(model: torch.nn.Module, path: Path) -> None:
    """All keys must fit: a model with half its weights is another model."""
    state = _read_state(path)
    own = model.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    shapes = [
        f"{name} {list(state[name].shape)} instead of {list(own[name].shape)}"
        for name in sorted(own.keys() & state.keys())
        if state[name].shape != own[name].shape
    ]
    parts = [
        f"{what}: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
        for what, names in (("missing", missing), ("not in the model", extra), ("other shape", shapes))
        if names
    ]
    if parts:
        hint = "Save the weights of this very model: safetensors.torch.save_file(model.state_dict(), FILE)."
        raise SourceError(f"{path.name} does not fit the model; {'; '.join(parts)}", hint=hint)
    model.load_state_dict(state, strict=True)


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise SourceError(
            f"{path.name} is missing", hint="Check source.weights; its path is relative to artifactctl.yaml."
        )
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors: dict[str, torch.Tensor] = load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise SourceError(f"{path.name} is not a whole safetensors file: {error}") from None
        return tensors
    _expect(path, "pickle")
    try:
        # mapped where the format can be: the model has its own copy, and a second one would double what is held
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, AttributeError) as error:
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()  # torch colours its messages
        reason = text.splitlines()[0] if text else type(error).__name__
        hint = (
            "A pickle can run any code. Save the weights alone: safetensors.torch.save_file(model.state_dict(), FILE)."
        )
        raise SourceError(f"{path.name} needs code to be loaded, or is damaged ({reason[:200]})", hint=hint) from None
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        hint = "Save the weights alone: safetensors.torch.save_file(model.state_dict(), FILE)."
        raise SourceError(f"{path.name} holds {type(state).__name__}, not a state dict", hint=hint)
    return state
