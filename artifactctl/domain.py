"""What the source takes: sets that it refuses are outside its domain, but enough must be left to prove something."""

from __future__ import annotations

from typing import Any

from artifactctl.errors import SourceError

MIN_SETS = 5
SET_KEYS = ("kind", "dims", "draw", "rest", "narrow", "follows")  # of a planned set: what makes its inputs


def inside_domain(
    plan: dict[str, Any], entries: list[dict[str, Any]], refused: list[dict[str, str]], *, declared: bool
) -> dict[str, Any]:
    """The plan without what the source refused; `declared`: free dimensions are the user's word, and must be true."""
    reasons = {item["set"]: item["message"] for item in refused}
    _demand_own_data(entries, reasons)
    seeded = [entry for entry in entries if entry["origin"] == "seeded"]
    kept = [entry for entry in seeded if entry["set"] not in reasons]
    rows = sum(entry["rows"] for entry in entries if entry["origin"] == "data")
    if len(kept) < MIN_SETS and rows < MIN_SETS and plan["inputs"]:
        message = next(iter(reasons.values()), "no input could be made up")
        raise SourceError(
            f"the source takes only {len(kept)} of the made-up samples, and {MIN_SETS} are needed: {message}",
            hint="Give real ones (data: {samples: FILE.npz}), or check source.inputs: names, shapes and dtypes.",
        )
    if declared and kept:
        _demand_free_sizes(kept, reasons)
    outside = [{"dims": entry["dims"], "message": reasons[entry["set"]]} for entry in seeded if entry["set"] in reasons]
    return plan | {
        "sets": [{key: entry[key] for key in SET_KEYS if key in entry} for entry in kept],
        "batched": plan["batched"] and any(entry["rows"] > 1 for entry in kept),
        "outside": plan["outside"] + outside,
        "entries": {entry["set"]: entry for entry in entries if entry["set"] not in reasons},
    }


def _demand_own_data(entries: list[dict[str, Any]], reasons: dict[str, str]) -> None:
    for entry in entries:
        if entry["origin"] == "data" and entry["set"] in reasons:
            hint = "Check shapes, types and value ranges of the samples against the model."
            raise SourceError(f"the source refuses data.samples: {reasons[entry['set']]}", hint=hint)


def _demand_free_sizes(kept: list[dict[str, Any]], reasons: dict[str, str]) -> None:
    """A dimension with a name was run at two sizes at least, or it is not free."""
    for symbol in kept[0]["dims"]:
        sizes = {entry["dims"][symbol] for entry in kept}
        if len(sizes) < 2:
            only = next(iter(sizes))
            message = next(iter(reasons.values()), "")
            hint = f"Write a number instead of the name where it must be {only}, or give the sizes in data.samples."
            raise SourceError(
                f"{symbol!r} is declared as free, but the source ran at {only} only: {message}", hint=hint
            )
