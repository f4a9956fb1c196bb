"""Release notes: what changed between two models, as Markdown that no name in them can bend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artifactctl import verdicts
from artifactctl.report import diff_words as words
from artifactctl.report.bench import plural
from artifactctl.report.names import code, markdown_table
from artifactctl.report.text import number

if TYPE_CHECKING:
    from artifactctl.steps.diff import Diff

Row = Sequence[str]


def markdown(found: Diff) -> str:
    """Names no path: the same wherever the models lie. Ends with a newline."""
    parts = [
        f"# {_title(found.after)}",
        *_verdict(found),
        *_changes(found),
        "## Inputs and outputs",
        *_values(found),
        "## Operators",
        *_operators(found),
        "## Weights",
        *_weights(found),
        "## Proof",
        *_proof(found),
        "## Speed",
        *_speed(found),
        "## Accuracy",
        *_accuracy(found),
    ]
    return "\n\n".join(parts) + "\n"


def _title(side: Any) -> str:
    """A model's name is checked by the schema; a file's may be anything."""
    return words.title_of(side) if side.version else code(words.title_of(side))


def _verdict(found: Diff) -> list[str]:
    sentence = words.summary(found)
    text = f"{sentence[0].upper()}{sentence[1:]}."
    if found.model is None or found.before is None:
        return [text]
    breaking = found.model.breaking
    warning = [f"**Breaking:** {plural(len(breaking), 'change')} of inputs and outputs, see below."] if breaking else []
    return [*warning, text, f"Compared with {_title(found.before)}."]


def _changes(found: Diff) -> list[str]:
    rows = [
        (_label(what), _known(before), _known(after)) for what, before, after in map(words.change_row, found.changes)
    ]
    if not rows:
        return ["Nothing that is recorded of them differs."]
    if found.before is None:
        return [markdown_table(("what", "value"), [(what, after) for what, _, after in rows if after != "–"])]
    return [markdown_table(("what", "before", "after"), rows)]


def _label(text: str) -> str:
    return text if text.isascii() and text.replace(" ", "").isalnum() else code(text)


def _known(text: str) -> str:
    return text if text == "–" else code(text, 200)


def _values(found: Diff) -> list[str]:
    after = found.described[1]
    own = [
        (kind, code(value["name"]), code(words.type_text(value)))
        for kind in ("input", "output")
        for value in after[f"{kind}s"]
    ]
    if found.model is None or not found.model.values:
        told = [] if found.model is None else ["Unchanged."]
        return [*told, *_limited(("", "name", "type and shape"), own)]
    rows = [
        (
            change.kind, code(change.name), "**breaking**" if change.breaking else "compatible", change.change,
            _known(words.type_text(change.before)), _known(words.type_text(change.after)),
        )
        for change in found.model.values
    ]  # fmt: skip
    return _limited(("", "name", "for callers", "change", "before", "after"), rows)


def _operators(found: Diff) -> list[str]:
    after = found.described[1]
    if found.model is None or found.described[0] is None:
        rows = [(code(entry["operator"]), code(entry["domain"]), str(entry["count"])) for entry in _by_count(after)]
        return _limited(("operator", "domain", "count"), rows)
    counts = [words.operator_count(side) for side in (found.described[0], after)]
    if not found.model.operators:
        equal = "connected in the same way" if found.model.equal != "nothing" else "connected in another way"
        return [f"The same {plural(counts[1], 'operator')}, {equal}."]
    changed = [
        (code(change.operator), code(change.domain), str(change.before), str(change.after))
        for change in found.model.operators
    ]
    return [f"{counts[0]} before, {counts[1]} now.", *_limited(("operator", "domain", "before", "after"), changed)]


def _by_count(described: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(described["operators"], key=lambda entry: (-entry["count"], entry["domain"], entry["operator"]))


def _weights(found: Diff) -> list[str]:
    if found.model is None:
        after = found.described[1]
        return [f"{plural(len(after['weights']), 'weight')}, {after['parameters']:,} parameters."]
    told = [f"{words.weight_counts(found.model.weights)}."]
    rows = [
        (code(name), what, *(_known(part) for part in (before, after)), *numbers)
        for name, what, before, after, *numbers in words.weight_rows(found.model.weights)
    ]
    told += _limited(words.WEIGHT_HEAD, rows) if rows else []
    if count := found.model.weights.not_compared:
        told.append(f"{plural(count, 'changed weight')} of them too large to be compared number by number.")
    return told


def _proof(found: Diff) -> list[str]:
    meta = found.after.metadata
    if meta is None:
        return ["Not recorded: this is a file, not an artifact."]
    proof = meta["equivalence"]
    error = "" if proof["max_error"] is None else f"; the largest error is {number(proof['max_error'])}"
    against = f"against {code(meta['reference']['framework'])} on {plural(proof['samples'], 'sample')}"
    told = [f"Proved: {code(proof['statement'])} {against}{error}."]
    before = found.before.metadata["equivalence"] if found.before and found.before.metadata else None
    if before is not None:
        told.append(f"Before: {code(before['statement'])}; the largest error was {number(before['max_error'])}.")
    return told


def _speed(found: Diff) -> list[str]:
    meta, told = found.after.metadata, []
    if paired := found.speed["paired"]:
        reason = "" if paired["ratio"] is not None else code(paired["reason"], 200)
        told.append(_sentence(verdicts.sentence({**paired, "reason": reason})))
    elif text := words.speed_text(found):
        told.append(_sentence(text))
    elif found.speed["after_p50_ms"] is not None:
        told.append(f"p50 {found.speed['after_p50_ms']:.4g} ms.")
    latency = meta["latency"] if meta else None
    if latency and (spread := verdicts.spread(latency)):
        told.append(f"In pairs with its source: {spread}.")
    return told or ["Not measured."]


def _accuracy(found: Diff) -> list[str]:
    meta = found.after.metadata
    accuracy = meta["equivalence"]["accuracy"] if meta else None
    if not meta or meta["accuracy_drop"] is None:
        return ["Not measured."]
    drop = f"Drop {meta['accuracy_drop']:+.4f} against the source"
    if accuracy and None not in [accuracy.get(key) for key in ("source", "candidate", "samples")]:
        numbers = f"source {accuracy['source']:.4f}, this model {accuracy['candidate']:.4f}"
        drop += f" ({numbers}, {accuracy['samples']} labelled samples)"
    past = found.before.metadata["accuracy_drop"] if found.before and found.before.metadata else None
    return [f"{drop}." if past is None else f"{drop}; before {past:+.4f}."]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _limited(head: Row, rows: Sequence[Row]) -> list[str]:
    more = len(rows) - words.MOST
    return [markdown_table(head, rows[: words.MOST]), *([f"… and {more} more."] if more > 0 else [])]
