"""A GitHub release against a real server: whatever fails between two requests, a second run ends at the same."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from artifactctl.ci.hub import NOTES_CHARACTERS, Hub, Published
from artifactctl.errors import Conflict, ReleaseError
from tests.hub import Fault, ReleasesServer

TAG = "mlp/artifact_v1"
CONTENT = {"mlp-artifact_v1.zip": b"zip" * 1000, "mlp-artifact_v1.md": b"notes\n", "mlp-artifact_v1.SHA256SUMS": b"x"}


@pytest.fixture
def server() -> Iterator[ReleasesServer]:
    with ReleasesServer("owner/name") as server:
        yield server


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, data in CONTENT.items():
        (tmp_path / name).write_bytes(data)
    return [tmp_path / name for name in CONTENT]


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


DIGESTS = {name: digest(data) for name, data in CONTENT.items()}


def publish(server: ReleasesServer, files: list[Path], token: str | None = None, notes: str = "notes") -> Published:
    return Hub(server.api, "owner/name", token or server.token).publish(TAG, "mlp artifact_v1", notes, files)


def nothing_published(server: ReleasesServer) -> bool:
    return all(release.draft for release in server.releases)


def test_published_anew_then_unchanged(server: ReleasesServer, files: list[Path]) -> None:
    first = publish(server, files)
    assert (first.status, first.url) == ("published", f"{server.api}/owner/name/releases/{TAG}")
    assert server.published(TAG) == DIGESTS
    assert [(release.name, release.body) for release in server.releases] == [("mlp artifact_v1", "notes")]
    server.requests.clear()
    assert publish(server, files) == Published("unchanged", first.url)
    assert {request.split()[0] for request in server.requests} == {"GET"}


def test_it_is_a_draft_until_every_file_is_there(server: ReleasesServer, files: list[Path]) -> None:
    publish(server, files)
    methods = [request.split()[0] for request in server.requests]
    assert methods == ["GET", "POST", "POST", "POST", "POST", "GET", "PATCH"]


def test_a_draft_of_a_killed_run_is_completed(server: ReleasesServer, files: list[Path]) -> None:
    draft = server.add(TAG)
    names = list(CONTENT)
    server.add_asset(draft, names[0], None)  # half uploaded
    server.add_asset(draft, names[1], b"other bytes")
    assert publish(server, files).status == "published"
    assert server.published(TAG) == DIGESTS
    assert len(server.releases) == 1


def test_what_a_draft_has_already_is_not_sent_again(server: ReleasesServer, files: list[Path]) -> None:
    draft = server.add(TAG)
    for name, data in list(CONTENT.items())[:2]:
        server.add_asset(draft, name, data)
    publish(server, files)
    assert len([request for request in server.requests if "/uploads/" in request]) == 1
    assert not [request for request in server.requests if request.startswith("DELETE")]


def test_a_file_in_a_draft_that_is_not_ours_stops_it(server: ReleasesServer, files: list[Path]) -> None:
    server.add(TAG, notes__txt=b"of a person")
    with pytest.raises(ReleaseError, match=r"notes\.txt") as caught:
        publish(server, files)
    assert "draft" in caught.value.hint
    assert nothing_published(server)


def test_published_with_other_files(server: ReleasesServer, files: list[Path]) -> None:
    other = server.add(TAG, draft=False)
    for name, data in (CONTENT | {"mlp-artifact_v1.zip": b"other"}).items():
        server.add_asset(other, name, data)
    with pytest.raises(Conflict) as caught:
        publish(server, files)
    assert digest(b"other") in str(caught.value)
    assert DIGESTS["mlp-artifact_v1.zip"] in str(caught.value)
    assert {request.split()[0] for request in server.requests} == {"GET"}


@pytest.mark.parametrize("change", ["missing", "extra"])
def test_published_with_fewer_or_more_files(server: ReleasesServer, files: list[Path], change: str) -> None:
    other = server.add(TAG, draft=False)
    names = list(CONTENT)[1:] if change == "missing" else [*CONTENT, "more.txt"]
    for name in names:
        server.add_asset(other, name, CONTENT.get(name, b""))
    with pytest.raises(Conflict, match="none"):
        publish(server, files)


def test_bytes_that_arrive_otherwise_are_not_published(server: ReleasesServer, files: list[Path]) -> None:
    server.digest_of = lambda data: digest(data + b"damage")
    with pytest.raises(ReleaseError, match="arrived with digest"):
        publish(server, files)
    assert nothing_published(server)


def test_a_server_without_digests_proves_nothing(server: ReleasesServer, files: list[Path]) -> None:
    server.digest_of = lambda data: None  # type: ignore[assignment,return-value]
    with pytest.raises(ReleaseError):
        publish(server, files)
    assert nothing_published(server)


def test_a_token_that_is_refused(server: ReleasesServer, files: list[Path]) -> None:
    with pytest.raises(ReleaseError, match="401: Bad credentials") as caught:
        publish(server, files, token="wrong")
    assert "github.token" in caught.value.hint
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("token", ["two\nlines", "two\r\nX-More: 1", "blätter", "名"])
def test_a_token_that_cannot_be_sent_is_not_told(server: ReleasesServer, files: list[Path], token: str) -> None:
    with pytest.raises(ReleaseError) as caught:
        publish(server, files, token=token)
    assert token not in str(caught.value)
    assert "token" in caught.value.hint


def test_a_token_that_may_not_write(server: ReleasesServer, files: list[Path]) -> None:
    server.may_write = False
    with pytest.raises(ReleaseError, match="403: Resource not accessible by integration") as caught:
        publish(server, files)
    assert "contents: write" in caught.value.hint


def test_another_repository(server: ReleasesServer, files: list[Path]) -> None:
    with pytest.raises(ReleaseError, match="404: Not Found") as caught:
        Hub(server.api, "owner/other", server.token).publish(TAG, "title", "notes", files)
    assert "repository must exist" in caught.value.hint


def test_the_server_is_gone(server: ReleasesServer, files: list[Path]) -> None:
    hub = Hub(server.api, "owner/name", server.token)
    server.stop()
    with pytest.raises(ReleaseError, match="cannot be reached"):
        hub.publish(TAG, "title", "notes", files)


def test_a_release_on_the_second_page_is_found(server: ReleasesServer, files: list[Path]) -> None:
    publish(server, files)
    for number in range(100):
        server.add(f"other/artifact_v{number + 1}", draft=False)
    assert publish(server, files).status == "unchanged"
    assert len(server.releases) == 101


def test_exactly_one_page(server: ReleasesServer, files: list[Path]) -> None:
    for number in range(100):
        server.add(f"other/artifact_v{number + 1}", draft=False)
    assert publish(server, files).status == "published"


def test_a_published_one_is_believed_before_a_draft(server: ReleasesServer, files: list[Path]) -> None:
    publish(server, files)
    server.add(TAG)  # of a run that lost a race
    assert publish(server, files).status == "unchanged"


def test_notes_that_are_too_long_are_cut(server: ReleasesServer, files: list[Path]) -> None:
    publish(server, files, notes="ä" * 200_000)
    assert NOTES_CHARACTERS < len(server.releases[0].body) < 125_000


REQUESTS = 7  # of a publication anew with three files


FAULTS: list[tuple[int, Fault]] = [
    (number, how) for number in range(1, REQUESTS + 1) for how in get_args(Fault) if how != "half"
]
UPLOADS: list[tuple[int, Fault]] = [(number, "half") for number in (3, 4, 5)]


@pytest.mark.parametrize(("number", "how"), [*FAULTS, *UPLOADS])
def test_whatever_request_fails_a_second_run_ends_at_the_same(
    server: ReleasesServer, files: list[Path], number: int, how: Fault
) -> None:
    server.fail(number, how)
    with pytest.raises(ReleaseError):
        publish(server, files)
    assert len(server.requests) == number
    assert publish(server, files).status in ("published", "unchanged")
    assert server.published(TAG) == DIGESTS
    assert len(server.releases) == 1


def test_a_redirect_does_not_get_the_token(files: list[Path]) -> None:
    """urllib would send the header on, to whatever host is named, and turn a POST into a GET."""
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/elsewhere"):
                seen.append(self.headers.get("Authorization"))
            self.send_response(301)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            hub = Hub(f"http://127.0.0.1:{other.server_address[1]}", "owner/name", "secret")
            with pytest.raises(ReleaseError, match="301"):
                hub.publish(TAG, "title", "notes", files)
        finally:
            other.shutdown()
            thread.join()
    assert seen == []
