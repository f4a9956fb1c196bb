"""Opens a model package with ONNX Runtime itself. Its Python package has no call for that, its C interface has.

The C interface is a table of functions that only ever grows at its end, so a number below means the same function in
every later version. Version 31 of the table, that of ONNX Runtime 1.31, is asked for: an older one may lack the last.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any, NoReturn

from artifactctl.errors import NotAvailable

VERSION = 31
HINT = f"pip install 'onnxruntime>=1.{VERSION}'"
LIBRARIES = ("libonnxruntime.so*", "libonnxruntime*.dylib", "onnxruntime.dll")

# places in OrtApi
ERROR_MESSAGE, CREATE_ENV, CREATE_OPTIONS, INPUT_COUNT, OUTPUT_COUNT = 2, 3, 10, 30, 31
RELEASE_ENV, RELEASE_STATUS, RELEASE_SESSION, RELEASE_OPTIONS, PACKAGE_API = 92, 93, 95, 100, 427
# places in OrtModelPackageApi
CAPTURE, RELEASE_CAPTURED, OPEN, CLOSE, COMPONENT_NAMES, VARIANT_NAMES, VARIANT_PROVIDER = 0, 1, 2, 3, 6, 8, 9
SELECT, RELEASE_SELECTED, CREATE_SESSION = 11, 12, 15

_Pointer, _Text = ctypes.c_void_p, ctypes.c_char_p
_Path = ctypes.c_wchar_p if os.name == "nt" else ctypes.c_char_p


class _Table:
    """Functions by their place; those that return a status raise where it says that something failed."""

    def __init__(self, address: int, api: _Table | None = None) -> None:
        self._places = ctypes.cast(address, ctypes.POINTER(_Pointer))
        self._api = api or self  # whose functions read a status

    def plain(self, place: int, result: Any, *kinds: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *kinds)(self._places[place] or 0)

    def do(self, place: int, *arguments: Any) -> None:
        kinds = [_Pointer if isinstance(argument, int | None) else type(argument) for argument in arguments]
        if status := self.plain(place, _Pointer, *kinds)(*arguments):
            self._api.fail(status)

    def make(self, place: int, *arguments: Any) -> int:
        """What the function hands out through its last argument."""
        made = _Pointer()
        self.do(place, *arguments, ctypes.addressof(made))
        return made.value or 0

    def count(self, place: int, *arguments: Any) -> int:
        found = ctypes.c_size_t()
        self.do(place, *arguments, ctypes.addressof(found))
        return found.value

    def names(self, place: int, *arguments: Any) -> list[str]:
        found, count = ctypes.POINTER(_Text)(), ctypes.c_size_t()
        self.do(place, *arguments, ctypes.addressof(found), ctypes.addressof(count))
        return [(name or b"").decode() for name in found[: count.value]]

    def fail(self, status: int) -> NoReturn:
        message = self.plain(ERROR_MESSAGE, _Text, _Pointer)(status).decode(errors="replace")
        self.plain(RELEASE_STATUS, None, _Pointer)(status)
        raise NotAvailable(f"ONNX Runtime does not open the package: {message}", hint=HINT)


def open_ort_package(path: str, *, session: bool) -> dict[str, Any]:
    """What ONNX Runtime finds in it: by component and variant its provider.

    With `session` it chooses a variant of each component for the CPU, as it does for its users, and loads that model.
    """
    api = _interface()
    package_api = _Table(api.plain(PACKAGE_API, _Pointer)(), api)
    with contextlib.ExitStack() as opened:
        context = package_api.make(OPEN, _Path(path if os.name == "nt" else os.fsencode(path)))  # type: ignore[arg-type]
        opened.callback(package_api.plain(CLOSE, None, _Pointer), context)
        found: dict[str, Any] = {}
        for name in package_api.names(COMPONENT_NAMES, context):
            component = _Text(name.encode())
            variants = package_api.names(VARIANT_NAMES, context, component)
            found[name] = {variant: _provider(package_api, context, component, variant) for variant in variants}
        loaded = _load(api, package_api, context, list(found)) if session else {}
    return {"components": found, "loaded": loaded}


def _provider(package_api: _Table, context: int, component: Any, variant: str) -> str | None:
    provider = package_api.make(VARIANT_PROVIDER, context, component, _Text(variant.encode()))
    return (_Text(provider).value or b"").decode() if provider else None


def _load(api: _Table, package_api: _Table, context: int, components: list[str]) -> dict[str, dict[str, int]]:
    """How many inputs and outputs the session of each component has."""
    loaded = {}
    with contextlib.ExitStack() as opened:

        def kept(made: int, table: _Table, release: int) -> int:
            opened.callback(table.plain(release, None, _Pointer), made)
            return made

        env = kept(api.make(CREATE_ENV, ctypes.c_int(3), _Text(b"artifactctl")), api, RELEASE_ENV)
        options = kept(api.make(CREATE_OPTIONS), api, RELEASE_OPTIONS)
        captured = kept(package_api.make(CAPTURE, env, options), package_api, RELEASE_CAPTURED)
        for name in components:
            chosen = package_api.make(SELECT, context, _Text(name.encode()), captured)
            kept(chosen, package_api, RELEASE_SELECTED)
            made = kept(package_api.make(CREATE_SESSION, env, chosen, None), api, RELEASE_SESSION)
            loaded[name] = {"inputs": api.count(INPUT_COUNT, made), "outputs": api.count(OUTPUT_COUNT, made)}
    return loaded


def _interface() -> _Table:
    spec = importlib.util.find_spec("onnxruntime")
    places = [Path(place) / "capi" for place in (spec.submodule_search_locations or ())] if spec else []
    files = sorted(file for place in places for pattern in LIBRARIES for file in place.glob(pattern))
    if not files:
        raise NotAvailable("ONNX Runtime's C library is not here, and only it opens model packages", hint=HINT)
    try:
        library = ctypes.CDLL(str(files[0]))
        library.OrtGetApiBase.restype = ctypes.POINTER(_Pointer)
    except (OSError, AttributeError) as error:
        raise NotAvailable(f"ONNX Runtime's C library cannot be used ({error})", hint=HINT) from None
    base = library.OrtGetApiBase()
    if address := ctypes.CFUNCTYPE(_Pointer, ctypes.c_uint32)(base[0])(VERSION):
        return _Table(address)
    version = ctypes.CFUNCTYPE(_Text)(base[1])().decode()
    raise NotAvailable(f"ONNX Runtime {version} does not read model packages; 1.{VERSION} does", hint=HINT)
