"""A local server that keeps releases as GitHub's REST documentation says, and can fail at a chosen request.

    with ReleasesServer("owner/name") as server:
        server.fail(3, "after")     # the third request from now on is done, and its answer is lost
        Hub(server.api, "owner/name", server.token).publish(...)
        server.published("mlp/artifact_v1")

Drafts stand in the list only and need a token that may write; assets have a `state` and a digest that the server took.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

Fault = Literal["before", "after", "half", "garbage", "cut", "502"]
DOCUMENTATION = "https://docs.github.com/rest/releases"


class Refused(Exception):
    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.body = status, {"message": message, "documentation_url": DOCUMENTATION, **more}


@dataclass
class Asset:
    id: int
    name: str
    state: str  # uploaded; starter: an upload that was begun
    digest: str | None
    size: int


@dataclass
class Release:
    id: int
    tag_name: str
    name: str
    body: str
    draft: bool
    assets: list[Asset] = field(default_factory=list)


class ReleasesServer:
    """Start it as a context, or with start() and stop(); what it keeps outlives stop()."""

    def __init__(self, repository: str, token: str = "a-token") -> None:
        self.repository, self.token = repository, token
        self.may_write = True
        self.releases: list[Release] = []
        self.requests: list[str] = []  # "METHOD path", every one that came
        self.digest_of: Callable[[bytes], str] = lambda data: f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._faults: dict[int, Fault] = {}
        self._numbers = iter(range(1, 10**9))
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    __enter__ = start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def api(self) -> str:
        """What GITHUB_API_URL is."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fail(self, number: int, how: Fault = "before") -> None:
        """The number-th request from now on (1 is the next).

        before: the connection ends, nothing was done; after: it was done and the answer is lost; half: an upload ends
        in the middle; garbage: the answer is no JSON; cut: it ends in the middle; 502: nothing was done.
        """
        self._faults[len(self.requests) + number] = how

    def add(self, tag: str, *, draft: bool = True, **files: bytes) -> Release:
        """A release that is there already; `files` by name, with `__` for a dot."""
        made = Release(next(self._numbers), tag, tag, "", draft)
        self.releases.insert(0, made)
        for name, data in files.items():
            self.add_asset(made, name.replace("__", "."), data)
        return made

    def add_asset(self, release: Release, name: str, data: bytes | None) -> Asset:
        """None: an upload that was begun and never ended."""
        digest = None if data is None else self.digest_of(data)
        state = "starter" if data is None else "uploaded"
        release.assets.append(Asset(next(self._numbers), name, state, digest, len(data or b"")))
        return release.assets[-1]

    def published(self, tag: str) -> dict[str, str | None]:
        """Digests by the file's name, of the one published release of a tag."""
        (found,) = [each for each in self.releases if each.tag_name == tag and not each.draft]
        return {asset.name: asset.digest for asset in found.assets}

    def take(self, request: str) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            return self._faults.pop(len(self.requests), None)

    def shown(self, release: Release) -> dict[str, Any]:
        return {
            "id": release.id,
            "tag_name": release.tag_name,
            "name": release.name,
            "body": release.body,
            "draft": release.draft,
            "html_url": f"{self.api}/{self.repository}/releases/{'untagged' if release.draft else release.tag_name}",
            "upload_url": f"{self.api}/uploads/repos/{self.repository}/releases/{release.id}/assets{{?name,label}}",
            "assets": [vars(asset).copy() for asset in release.assets],
        }

    def answer(self, method: str, path: str, query: dict[str, str], data: bytes, authorization: str) -> tuple[int, Any]:
        """Status and document of one request."""
        if authorization != f"Bearer {self.token}":
            raise Refused(401, "Bad credentials")
        words = path.removeprefix("/uploads").strip("/").split("/")
        if words[:1] != ["repos"] or "/".join(words[1:3]) != self.repository or words[3:4] != ["releases"]:
            raise Refused(404, "Not Found")
        if method != "GET" and not self.may_write:
            raise Refused(403, "Resource not accessible by integration")
        rest = words[4:]
        with self._lock:
            if path.startswith("/uploads/"):
                return 201, vars(self._upload(self._release(rest[0]), query.get("name", ""), data)).copy()
            if not rest:
                return self._listed(query) if method == "GET" else (201, self.shown(self._create(json.loads(data))))
            if rest[0] == "assets" and method == "DELETE":
                return self._delete(int(rest[1]))
            found = self._release(rest[0])
            if method == "PATCH":
                self._change(found, json.loads(data))
            return 200, self.shown(found)

    def begin_upload(self, path: str, query: dict[str, str]) -> None:
        self.add_asset(self._release(path.split("/")[-2]), query["name"], None)

    def _release(self, number: str) -> Release:
        found = [each for each in self.releases if str(each.id) == number]
        if not found:
            raise Refused(404, "Not Found")
        return found[0]

    def _listed(self, query: dict[str, str]) -> tuple[int, Any]:
        size, page = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        seen = [each for each in self.releases if self.may_write or not each.draft]
        return 200, [self.shown(each) for each in seen[(page - 1) * size : page * size]]

    def _create(self, data: dict[str, Any]) -> Release:
        self._demand_free(data["tag_name"], data.get("body", ""), None)
        made = Release(next(self._numbers), data["tag_name"], data["name"], data["body"], bool(data.get("draft")))
        self.releases.insert(0, made)  # newest first
        return made

    def _change(self, release: Release, data: dict[str, Any]) -> None:
        if not data.get("draft", release.draft):
            self._demand_free(data.get("tag_name", release.tag_name), data.get("body", ""), release)
        for name, value in data.items():
            setattr(release, name, value)

    def _demand_free(self, tag: str, body: str, own: Release | None) -> None:
        if any(each.tag_name == tag and not each.draft and each is not own for each in self.releases):
            error = {"resource": "Release", "code": "already_exists", "field": "tag_name"}
            raise Refused(422, "Validation Failed", errors=[error])
        if len(body) > 125_000:
            raise Refused(422, "Validation Failed", errors=[{"resource": "Release", "field": "body"}])

    def _upload(self, release: Release, name: str, data: bytes) -> Asset:
        if not name or any(asset.name == name for asset in release.assets):
            error = {"resource": "ReleaseAsset", "code": "already_exists", "field": "name"}
            raise Refused(422, "Validation Failed", errors=[error])
        return self.add_asset(release, name, data)

    def _delete(self, number: int) -> tuple[int, Any]:
        for release in self.releases:
            for asset in release.assets:
                if asset.id == number:
                    release.assets.remove(asset)
                    return 204, None
        raise Refused(404, "Not Found")


class _Handler(BaseHTTPRequestHandler):
    hub: ReleasesServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path, length = unquote(url.path), int(self.headers.get("Content-Length") or 0)
        fault = self.hub.take(f"{self.command} {path}")
        if fault == "before":
            return self._hang_up()
        if fault == "half" and path.startswith("/uploads/"):
            self.rfile.read(length // 2)
            self.hub.begin_upload(path, query)
            return self._hang_up()
        data = self.rfile.read(length)
        if fault == "502":
            return self._send(502, b"<html>Bad gateway</html>")
        try:
            status, document = self.hub.answer(self.command, path, query, data, self.headers.get("Authorization") or "")
        except Refused as refusal:
            status, document = refusal.status, refusal.body
        if fault == "after":
            return self._hang_up()
        text = b"<html>" if fault == "garbage" else b"" if document is None else json.dumps(document).encode()
        return self._send(status, text, len(text) + (7 if fault == "cut" else 0))

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that http.server asks for

    def _send(self, status: int, text: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text) if length is None else length))
        self.end_headers()
        self.wfile.write(text)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
        """Tests look at `requests`."""
