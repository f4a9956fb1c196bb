"""Packages and releases, for machines and for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from artifactctl.folder import shown
from artifactctl.report.text import table

if TYPE_CHECKING:
    from artifactctl.steps.package import Package
    from artifactctl.steps.release import Release


def package_data(made: Package) -> dict[str, Any]:
    return {"path": shown(made.path), "sha256": made.sha256, "size_bytes": made.size_bytes, "status": made.status}


def package_text(made: Package) -> str:
    word = "written  " if made.status == "written" else "unchanged"
    lines = [f"{word} {shown(made.path)} ({made.size_bytes / 1e6:.2f} MB)", f"sha256    {made.sha256}"]
    if made.path.is_file():
        lines.append(f"check it  artifactctl verify {shown(made.path)}")
    return "\n".join(lines)


def release_data(found: Release) -> dict[str, Any]:
    return {
        "tag": found.tag,
        "commit": found.commit,
        "status": found.status,
        "steps": [asdict(step) for step in found.steps],
        "warnings": list(found.warnings),
        "package": package_data(found.package) if found.package else None,
    }


def release_text(found: Release) -> str:
    rows = [(step.name, step.status, step.detail) for step in found.steps]
    lines = [table(("step", "status", "detail"), rows), ""]
    lines += [f"warning   {text}" for text in found.warnings]
    words = {
        "released": f"released  {found.tag}",
        "unchanged": f"unchanged {found.tag} is released already, with these digests",
        "planned": f"planned   {found.tag}; nothing was written",
    }
    return "\n".join([*lines, words[found.status]])
