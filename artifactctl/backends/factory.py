"""The user's own code: a factory is imported and called, and every file it takes in is noted."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from artifactctl.backends import torchfiles
from artifactctl.errors import ArtifactctlError, SourceError


def from_factory(target: str, weights: str | None, root: Path) -> torch.nn.Module:
    place, _, name = target.rpartition(":")
    for folder in (str(root), str((root / place).parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        if place.endswith(".py"):
            factory = getattr(_module_from(root / place), name, None)
        else:
            factory = getattr(importlib.import_module(place), name, None)
        if not callable(factory):
            hint = f"Define 'def {name}() -> torch.nn.Module' there, or name another function after the colon."
            raise SourceError(f"{place} has no function {name!r}", hint=hint)
        model = factory()
    except ArtifactctlError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code may raise anything
        raise SourceError(
            f"{target} raised {_user_trace(error, root)}", hint="Mend the factory; run it by itself to debug."
        ) from None
    if not isinstance(model, torch.nn.Module):
        hint = "A factory returns the model itself, ready to be called."
        raise SourceError(f"{target} returned {type(model).__name__}, not a torch.nn.Module", hint=hint)
    if weights:
        torchfiles.load_weights(model, root / weights)
    return model.eval()


def _module_from(path: Path) -> Any:
    if not path.is_file():
        raise SourceError(
            f"{path.name} is missing", hint="Check source.torch; its path is relative to artifactctl.yaml."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _user_trace(error: BaseException, root: Path) -> str:
    """The exception, and of its traceback only the lines that are the user's."""
    lines = [f"{type(error).__name__}: {error}"]
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if _is_local(file, root):
            lines.append(f"  {file.resolve().relative_to(root.resolve())}:{frame.lineno} in {frame.name}: {frame.line}")
    if isinstance(error, SyntaxError) and error.filename:
        lines.append(f"  {Path(error.filename).name}:{error.lineno}: {(error.text or '').strip()}")
    return "\n".join(lines)


def _is_local(file: Path, root: Path) -> bool:
    inside = file.resolve().is_relative_to(root.resolve())
    installed = file.resolve().is_relative_to(Path(sys.prefix).resolve()) or "site-packages" in file.parts
    return inside and not installed and "__pycache__" not in file.parts


@contextmanager
def watch_files(root: Path) -> Iterator[set[str]]:
    """Every file of the project that is opened or imported meanwhile: they are the source too."""
    opened: set[str] = set()
    active = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if active[0] and event == "open" and isinstance(arguments[0], str) and arguments[1] in ("r", "rb", None):
            opened.add(arguments[0])

    sys.addaudithook(hook)
    _note_safetensors(opened)
    before = set(sys.modules)
    found: set[str] = set()
    try:
        yield found
    finally:
        active[0] = False
        modules = (getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before)
        for name in (*opened, *(file for file in modules if file)):
            path = Path(name)
            if path.is_file() and _is_local(path, root):
                found.add(path.resolve().relative_to(root.resolve()).as_posix())


def _note_safetensors(opened: set[str]) -> None:
    """safetensors opens files without Python, so no hook hears of them."""
    if importlib.util.find_spec("safetensors") is None:
        return
    import safetensors
    import safetensors.torch

    for module in (safetensors, safetensors.torch):
        original = getattr(module, "safe_open")  # noqa: B009 - not every module declares it

        def noting(filename: Any, *arguments: Any, _original: Any = original, **options: Any) -> Any:
            opened.add(str(filename))
            return _original(filename, *arguments, **options)

        setattr(module, "safe_open", noting)  # noqa: B010
