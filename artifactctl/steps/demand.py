"""What a consumer's policy is judged by, read from an artifact that is whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artifactctl import cells, folder, policy
from artifactctl.records import EquivalenceReport

EQUIVALENCE, LATENCY = "evidence/equivalence.json", "evidence/latency."


def judge(
    required: Sequence[policy.Requirement],
    path: Path,
    metadata: Mapping[str, Any],
    report: EquivalenceReport,
    *,
    signed: bool,
) -> list[policy.Finding]:
    if not required:
        return []
    names = folder.listing(path)
    latency = {
        name.removeprefix(LATENCY).removesuffix(".json"): _read(path / name)
        for name in names
        if name.startswith(LATENCY) and name.endswith(".json")
    }
    providers = {item.provider for item in required if item.name == "equivalence" and item.provider}
    beside = {provider: cell for provider in sorted(providers) if (cell := cells.read(path, provider))}
    facts = policy.Facts(
        metadata, _read(path / EQUIVALENCE), latency, frozenset(names), report, signed,
        folder.digest(path / folder.SUMS), beside,
    )  # fmt: skip
    return policy.judge(required, facts)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
