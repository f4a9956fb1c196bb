from __future__ import annotations

from typing import Any

import pytest

from artifactctl.domain import inside_domain
from artifactctl.errors import SourceError


def entries(*sizes: int, origin: str = "seeded") -> list[dict[str, Any]]:
    return [
        {"set": f"{number:05d}", "origin": origin, "rows": 1, "kind": "normal", "dims": {"h": size}, "draw": number}
        for number, size in enumerate(sizes)
    ]


def plan() -> dict[str, Any]:
    return {"inputs": [{"name": "x"}], "outside": [], "batched": True}


def refused(*numbers: int) -> list[dict[str, str]]:
    return [{"set": f"{number:05d}", "message": "too small"} for number in numbers]


def test_refused_sets_are_outside_and_the_rest_keeps_its_draws() -> None:
    found = inside_domain(plan(), entries(8, 8, 8, 8, 8, 9, 11), refused(5), declared=True)
    assert [entry["draw"] for entry in found["sets"]] == [0, 1, 2, 3, 4, 6]
    assert found["outside"] == [{"dims": {"h": 9}, "message": "too small"}]
    assert "00005" not in found["entries"]
    assert found["batched"] is False, "no set with more than one row is left"


def test_too_few_sets_prove_nothing() -> None:
    with pytest.raises(SourceError, match="takes only 4 of the made-up samples"):
        inside_domain(plan(), entries(8, 8, 8, 8, 8), refused(2), declared=False)


def test_a_size_that_is_not_free_after_all() -> None:
    with pytest.raises(SourceError, match="'h' is declared as free, but the source ran at 8 only: too small"):
        inside_domain(plan(), entries(8, 8, 8, 8, 8, 16), refused(5), declared=True)
    assert inside_domain(plan(), entries(8, 8, 8, 8, 8, 16), refused(5), declared=False)["sets"]


def test_the_users_own_data_must_be_taken() -> None:
    with pytest.raises(SourceError, match=r"refuses data\.samples: too small"):
        inside_domain(plan(), entries(8, origin="data"), refused(0), declared=False)
