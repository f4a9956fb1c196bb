"""Signatures and a consumer's policy, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artifactctl.folder import shown

if TYPE_CHECKING:
    from artifactctl.policy import Finding
    from artifactctl.steps.signing import Signed


def required_text(signed: Signed | None, findings: Sequence[Finding]) -> list[str]:
    lines = [f"signature {signed.status}: {signed.files} files, signed by {signed.by}"] if signed else []
    words = {True: "required  met: ", False: "required  NOT MET: "}
    return lines + [f"{words[finding.met]}{finding.requirement}, {finding.reason}" for finding in findings]


def signed_text(made: Signed) -> str:
    kept = ", and stays as it is" if made.status == "unchanged" else ""
    return f"{shown(made.path)}: {made.files} files signed by {made.by}\nsignature {shown(made.signature)}{kept}"
