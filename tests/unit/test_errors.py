from __future__ import annotations

import pytest

from artifactctl import errors

# section 4 of the contract
TABLE = {
    3: ("ConfigError", "configuration or schema"),
    4: ("SourceError", "model missing, damaged, not exportable, not runnable"),
    5: ("OptimizeError", "no recipe gave a model"),
    6: ("NotEquivalent", "proved different"),
    7: ("LatencyRegression", "proved slower than allowed"),
    8: ("NotProven", "the budget ended before a verdict"),
    9: ("NotAvailable", "provider or package missing here, or hardware not comparable"),
    10: ("ArtifactDamaged", "integrity, signature or schema of an artifact"),
    11: ("Conflict", "an existing version or tag differs"),
    12: ("ReleaseError", "preflight or publishing failed; safe to run again"),
}
CLASSES = errors.ArtifactctlError.__subclasses__()


def test_the_codes_are_those_of_the_contract() -> None:
    assert {code: (cls.__name__, cls.meaning) for code, cls in errors.EXIT_CODES.items()} == TABLE


def test_every_code_has_one_class() -> None:
    assert len(CLASSES) == len(errors.EXIT_CODES) == len({cls.exit_code for cls in CLASSES})
    assert not any(cls.__subclasses__() for cls in CLASSES)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_says_what_to_type_next(cls: type[errors.ArtifactctlError]) -> None:
    error = cls("it broke")
    assert (str(error), error.name, error.hint) == ("it broke", cls.__name__, cls.default_hint)
    assert cls.default_hint.strip().endswith(".")
    assert cls("it broke", hint="Do this.").hint == "Do this."


def test_what_a_misspelt_word_was_to_be() -> None:
    assert errors.perhaps("fp61", ("fp32", "fp16")) == ", perhaps you meant 'fp16'"
    assert errors.perhaps("wonder", ("fp32", "fp16")) == ""
