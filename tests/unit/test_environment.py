from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from artifactctl import __version__, environment
from artifactctl.errors import ConfigError


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    else:
        yield str(value)


def test_no_path_host_or_user() -> None:
    found = list(leaves(environment.describe()))
    assert not [text for text in found if Path(text).is_absolute() or str(Path.home()) in text]
    assert not {socket.gethostname(), socket.getfqdn(), getpass.getuser()} & set(found)


def test_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    described = environment.describe()
    assert "date" not in described
    assert described == environment.describe()
    assert described["artifactctl"] == __version__


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_source_date_epoch_is_the_date_in_any_time_zone(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert environment.describe()["date"] == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize("text", ["yesterday", "1e99", "99999999999999999999"])
def test_a_source_date_epoch_that_is_no_date_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH"):
        environment.describe()


def test_versions_of_packages() -> None:
    found = environment.package_versions(("numpy", "no-such-package-here", "onnx"))
    assert found == {name: metadata.version(name).split("+")[0] for name in ("numpy", "onnx")}
