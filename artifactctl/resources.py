"""The only module that knows where schemas/ and templates/ are: at the top of a checkout, in `_data` of a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


def schema_path(name: str) -> Path:
    return _folder("schemas") / f"{name}.schema.json"


def schema_names() -> list[str]:
    return sorted(path.name.removesuffix(".schema.json") for path in _folder("schemas").glob("*.schema.json"))


def template_path(name: str) -> Path:
    return _folder("templates") / name


def checkout() -> Path:
    """The folder that the package lies in; of a checkout, its top."""
    return _PACKAGE.parent


def commit() -> str | None:
    """What this package was built from; None in a checkout."""
    stamp = _PACKAGE / "_data" / "commit"
    return stamp.read_text(encoding="utf-8").strip() if stamp.is_file() else None


def template_text(name: str) -> str:
    return template_path(name).read_text(encoding="utf-8")
