"""A release on GitHub: draft, upload, compare digests, publish. Each step observes first, so that it can run again."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from artifactctl import folder
from artifactctl.errors import Conflict, ReleaseError

NOTES_CHARACTERS = 120_000  # GitHub refuses a body of more than 125,000
TIMEOUT_S = 300
PAGE, MOST_PAGES = 100, 100  # GitHub lists no more than the newest 10,000
_HINTS = {
    301: "The repository has another name now: run the workflow from there.",
    401: "The token is wrong or has expired: hand over ${{ github.token }}.",
    403: "The job needs 'permissions: contents: write'.",
    404: "The job needs 'permissions: contents: write', and the repository must exist.",
}


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token along, to any host, and make a GET of a POST."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stay)


@dataclass(frozen=True, slots=True)
class Published:
    status: str  # published, unchanged
    url: str


@dataclass(frozen=True, slots=True)
class Hub:
    api: str
    repository: str
    token: str

    def publish(self, tag: str, title: str, notes: str, files: Sequence[Path]) -> Published:
        """What is published already must have the very files; a draft is completed and published."""
        digests = {file.name: f"sha256:{folder.digest(file)}" for file in files}
        found = self._release_of(tag)
        if found and not found["draft"]:
            if wrong := _differing(found["assets"], digests):
                hint = "A published release is never changed: build and release the next version."
                raise Conflict(f"the GitHub release of {tag} has other files: {wrong}", hint=hint)
            return Published("unchanged", found["html_url"])
        body = (
            notes
            if len(notes) <= NOTES_CHARACTERS
            else f"{notes[:NOTES_CHARACTERS]}\n\n… cut; the whole is a file below.\n"
        )
        about = {"tag_name": tag, "name": title, "body": body, "draft": True}
        draft = found or self._ask("POST", self._url("releases"), about)
        for file in files:
            self._upload(draft, file, digests[file.name])
        there = self._ask("GET", self._url(f"releases/{draft['id']}"))
        if wrong := _differing(there["assets"], digests):
            hint = "Remove from the draft what does not belong to it, or the draft, and run it again."
            raise ReleaseError(f"the draft of {tag} has other files: {wrong}", hint=hint)
        done = self._ask("PATCH", self._url(f"releases/{draft['id']}"), {**about, "draft": False})
        return Published("published", done["html_url"])

    def _upload(self, draft: Mapping[str, Any], file: Path, digest: str) -> None:
        """A draft is ours alone: what a killed upload left in it is replaced."""
        for asset in draft["assets"]:
            if asset["name"] == file.name:
                if asset.get("state") == "uploaded" and asset.get("digest") == digest:
                    return
                self._ask("DELETE", self._url(f"releases/assets/{asset['id']}"))
        place = f"{draft['upload_url'].partition('{')[0]}?name={quote(file.name)}"
        made = self._ask("POST", place, file=file)
        if made.get("digest") != digest:
            message = f"{file.name} arrived with digest {made.get('digest')}, sent was {digest}"
            raise ReleaseError(message, hint="Run it again: the draft is not published.")

    def _release_of(self, tag: str) -> dict[str, Any] | None:
        """Drafts are found in the list only; the oldest one where a race made two."""
        found: list[dict[str, Any]] = []
        for page in range(1, MOST_PAGES + 1):
            rows = self._ask("GET", self._url(f"releases?per_page={PAGE}&page={page}"))
            found += [row for row in rows if row["tag_name"] == tag]
            if len(rows) < PAGE:
                break
        found.sort(key=lambda row: (row["draft"], row["id"]))
        return found[0] if found else None

    def _url(self, rest: str) -> str:
        return f"{self.api.rstrip('/')}/repos/{self.repository}/{rest}"

    def _ask(self, method: str, url: str, data: Mapping[str, Any] | None = None, file: Path | None = None) -> Any:
        headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {self.token}"}
        headers |= {"X-GitHub-Api-Version": "2022-11-28", "User-Agent": "artifactctl"}
        body: Any = json.dumps(data).encode() if data is not None else None
        if file is not None:
            headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
        try:
            with file.open("rb") if file else contextlib.nullcontext(body) as sent:
                request = urllib.request.Request(url, sent, headers, method=method)
                with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
                    text = answer.read()
        except urllib.error.HTTPError as error:
            said = _message_of(error)
            raise ReleaseError(
                f"GitHub refused {method} with {error.code}: {said}", hint=_HINTS.get(error.code)
            ) from None
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise ReleaseError(f"GitHub cannot be reached: {getattr(error, 'reason', error)}") from None
        except ValueError:  # its text holds the token
            raise ReleaseError(f"{method} cannot be sent with this token", hint=_HINTS[401]) from None
        try:
            return json.loads(text) if text else {}
        except ValueError:
            raise ReleaseError(f"the answer to {method} is no JSON: is GITHUB_API_URL right?") from None


def _differing(assets: Sequence[Mapping[str, Any]], digests: Mapping[str, str]) -> str:
    """Every file that is not the same on both sides, with both digests; empty where there is none."""
    there = {asset["name"]: asset.get("digest") for asset in assets}
    wrong = [name for name in sorted(there.keys() | digests.keys()) if there.get(name) != digests.get(name)]
    return "; ".join(f"{name}: {there.get(name, 'none')} there, {digests.get(name, 'none')} here" for name in wrong)


def _message_of(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
