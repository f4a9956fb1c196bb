"""Tag and publish what was built and proved; safe to run again, whatever happened to the run before."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artifactctl import cells
from artifactctl.ci import command, evidence, inputs, page, rerun, stage
from artifactctl.ci.blame import line_of
from artifactctl.ci.finished import Finished, Remark, told
from artifactctl.ci.hub import Hub, Published
from artifactctl.errors import ArtifactDamaged, ConfigError, ReleaseError
from artifactctl.git.repository import open_repository
from artifactctl.steps.package import DIST
from artifactctl.versions import folder_name, package_name, tag_name

BOT = "github-actions[bot]"
BOT_ADDRESS = "41898282+github-actions[bot]@users.noreply.github.com"


def release() -> Finished:
    place, root = Path(inputs.required("build")), Path.cwd()
    build = stage.read(place)
    if build is None or build["error"]:
        raise ReleaseError("the build failed, so there is nothing to release", hint="Look at the job that built.")
    hub = _hub() if inputs.flag("github-release") else None  # before anything is pushed
    entries = _chosen(build["artifacts"])
    rows: list[tuple[str, str, str]] = []
    tags, urls = [], {}
    for entry in entries:
        with rerun.at_release(root, entry):
            _place(place, entry, root)
            with _as_bot(root):
                done = _release(place, entry)
        if done.error:
            return _refused(done, entry, rows)
        tags.append(done.data["tag"])
        rows.append((done.data["tag"], done.data["status"], f"commit {(done.data['commit'] or '')[:12]}"))
        if hub:
            published = _publish(hub, entry, done.data["tag"], root)
            rows.append((done.data["tag"], published.status, published.url))
            urls[entry["model"]] = published.url
    return Finished(0, page.released(rows), {"tags": json.dumps(tags), "urls": json.dumps(urls)})


def _release(place: Path, entry: Mapping[str, Any]) -> command.Outcome:
    """With the package that was built: the job that may write needs no Olive."""
    package = place / DIST / f"{package_name(entry['model'], entry['version'])}.zip"
    push = [] if _on_tag() else ["--push"]
    return command.run("release", *push, f"--package={package}", "--", f"{entry['model']}@v{entry['version']}")


def _chosen(artifacts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """On a release's own tag that version only; else what the input names, or everything that was built."""
    wanted, tag = inputs.words("models"), os.environ.get("GITHUB_REF_NAME", "")
    if _on_tag():
        found = [entry for entry in artifacts if tag_name(entry["model"], entry["version"]) == tag]
        if not found:
            message = f"the tag {tag} is there, and the build of its commit made no such version"
            raise ReleaseError(message, hint="Commit the artifact before it is tagged: artifactctl release does both.")
        return found
    unknown = [model for model in wanted if model not in {entry["model"] for entry in artifacts}]
    if unknown or not artifacts:
        message = f"the build made no artifact of {', '.join(unknown)}" if unknown else "the build made no artifact"
        raise ConfigError(message, hint="Name models of artifactctl.yaml in the input 'models', or leave it empty.")
    return [entry for entry in artifacts if not wanted or entry["model"] in wanted]


def _on_tag() -> bool:
    return os.environ.get("GITHUB_REF_TYPE") == "tag"


def _place(place: Path, entry: Mapping[str, Any], root: Path) -> None:
    """The artifact and the evidence of its cells, where `release` looks for them."""
    artifact = stage.unfold(place, entry, root)
    handed = Path(inputs.required("evidence"))
    for found in evidence.read(handed):
        if found.damage:
            hint = "Release only what the gate has passed: run the whole workflow again."
            raise ArtifactDamaged(f"{found.name} cannot be read as evidence: {found.damage}", hint=hint)
        target = cells.path_of(artifact, found.data["provider"])
        fits = (found.data["model"], found.data["artifact_sha256"]) == (entry["model"], entry["digest"])
        if fits and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(handed / found.name, target)
    with open_repository(root) as repository:
        if repository.branch is None and _on_tag():
            rerun.own_branch(repository, "HEAD")


@contextmanager
def _as_bot(root: Path) -> Iterator[None]:
    """git's identity where the runner has none, and the token for its pushes: in the environment, never in a file."""
    added: dict[str, str] = {}
    with open_repository(root) as repository:
        if repository.identity_problem:
            for role in ("AUTHOR", "COMMITTER"):
                added |= {f"GIT_{role}_NAME": BOT, f"GIT_{role}_EMAIL": BOT_ADDRESS}
    token, server = inputs.text("token"), os.environ.get("GITHUB_SERVER_URL", "")
    if token and server.startswith("https://"):
        secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        number = int(os.environ.get("GIT_CONFIG_COUNT", "0") or 0)
        added |= {
            "GIT_CONFIG_COUNT": str(number + 1),
            f"GIT_CONFIG_KEY_{number}": f"http.{server}/.extraheader",
            f"GIT_CONFIG_VALUE_{number}": f"AUTHORIZATION: basic {secret}",
        }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _refused(done: command.Outcome, entry: Mapping[str, Any], rows: list[tuple[str, str, str]]) -> Finished:
    assert done.error is not None
    name, message, hint = (done.error[key] for key in ("name", "message", "hint"))
    shown = page.failed("release", name, message, hint, done.line) + (page.released(rows) if rows else "")
    return Finished(
        done.code, shown, remarks=(Remark(name, told(done.error, done.line), line_of(name, message, entry["model"])),)
    )


def _hub() -> Hub:
    api, repository = os.environ.get("GITHUB_API_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    if not (api and repository):
        hint = "Set the input 'github-release' to false where there is no GitHub."
        raise ReleaseError("GITHUB_API_URL and GITHUB_REPOSITORY are not set", hint=hint)
    return Hub(api, repository, inputs.required("token"))


def _publish(hub: Hub, entry: Mapping[str, Any], tag: str, root: Path) -> Published:
    name = package_name(entry["model"], entry["version"])
    files = sorted(path for path in (root / DIST).glob(f"{name}.*") if path.is_file())
    notes = (root / DIST / f"{name}.md").read_text(encoding="utf-8")
    title = f"{entry['model']} {folder_name(entry['version'])}"
    return hub.publish(tag, title, notes, files)
