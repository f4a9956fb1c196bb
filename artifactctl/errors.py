"""Every failure a user can meet, its exit code and its hint. Codes 0, 1, 2 and 130 have no class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

LIKE = 0.5  # of difflib: how much of a misspelt word must be right
NO_SPACE_HINT = "Free some space and run it again; nothing was changed."
NO_MEMORY_HINT = "Give it more with --memory-limit MB, or smaller sizes in source.inputs or data.samples."


def perhaps(word: str, known: Iterable[str]) -> str:
    """What a misspelt word was to be, as the end of a sentence; nothing where none is like it."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=LIKE)
    return f", perhaps you meant {close[0]!r}" if close else ""


class ArtifactctlError(Exception):
    """What happened and why is the message; what to type next is the hint."""

    exit_code: ClassVar[int]
    meaning: ClassVar[str]
    default_hint: ClassVar[str]

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint or self.default_hint

    @property
    def name(self) -> str:
        return type(self).__name__


class ConfigError(ArtifactctlError):
    exit_code = 3
    meaning = "configuration or schema"
    default_hint = "Run 'artifactctl schema config' to see every key, or 'artifactctl check' after an edit."


class SourceError(ArtifactctlError):
    exit_code = 4
    meaning = "model missing, damaged, not exportable, not runnable"
    default_hint = "Run 'artifactctl inspect FILE' to see what can be read of the model."


class OptimizeError(ArtifactctlError):
    exit_code = 5
    meaning = "no recipe gave a model"
    default_hint = "Run again with '-v' for the whole log, or with '--recipe auto' to try every recipe that applies."


class NotEquivalent(ArtifactctlError):
    exit_code = 6
    meaning = "proved different"
    default_hint = "Look at the outputs listed above; 'artifactctl verify ARTIFACT --json' has every number."


class LatencyRegression(ArtifactctlError):
    exit_code = 7
    meaning = "proved slower than allowed"
    default_hint = "Raise latency.max_regression in artifactctl.yaml only if the slow-down is wanted."


class NotProven(ArtifactctlError):
    exit_code = 8
    meaning = "the budget ended before a verdict"
    default_hint = "Give latency.budget_s more seconds in artifactctl.yaml, or run on a quieter machine."


class NotAvailable(ArtifactctlError):
    exit_code = 9
    meaning = "provider or package missing here, or hardware not comparable"
    default_hint = "Run 'artifactctl doctor' to see what is missing and the line that installs it."


class ArtifactDamaged(ArtifactctlError):
    exit_code = 10
    meaning = "integrity, signature or schema of an artifact"
    default_hint = "Fetch the artifact again, or run 'artifactctl build' to make a new version; never repair by hand."


class Conflict(ArtifactctlError):
    exit_code = 11
    meaning = "an existing version or tag differs"
    default_hint = "Existing versions are never changed: build a new one with 'artifactctl build'."


class ReleaseError(ArtifactctlError):
    exit_code = 12
    meaning = "preflight or publishing failed; safe to run again"
    default_hint = "Mend what is named above and run the same command again."


def is_full_disk(error: ArtifactctlError) -> bool:
    """Nobody's fault but the machine's: it ends whatever goes on."""
    return error.hint == NO_SPACE_HINT


EXIT_CODES: dict[int, type[ArtifactctlError]] = {cls.exit_code: cls for cls in ArtifactctlError.__subclasses__()}
