"""A proof in a provider's name needs the nodes to run there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artifactctl.backends import core

from .small import SETTINGS, floats, model, node, write

TEMPLATE = sys.modules[core.Comparison.__module__]  # `demand_placement` is no part of the package
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class Node:
    def __init__(self, op_type: str, name: str) -> None:
        self.op_type, self.name = op_type, name


class Part:
    def __init__(self, ep_name: str, nodes: list[Node]) -> None:
        self.ep_name, self._nodes = ep_name, nodes

    def get_nodes(self) -> list[Node]:
        return self._nodes


class Placed:
    """Answers as a session of a runtime with hardware that is not here."""

    def __init__(self, *parts: tuple[str, int]) -> None:
        self._parts = [
            Part(provider, [Node("Conv", f"{provider[:3].lower()}_{place}") for place in range(count)])
            for provider, count in parts
        ]

    def get_provider_graph_assignment_info(self) -> list[Part]:
        return self._parts


class OlderRuntime:
    """Does not tell where its nodes run."""


def demand(session: Any, provider: str, before: dict[str, int] | None = None) -> None:
    TEMPLATE.demand_placement(session, {"execution_provider": provider, "placement": before})


def test_a_provider_that_ran_none() -> None:
    with pytest.raises(core.Failure, match="runs none of the model's 2 nodes") as caught:
        demand(Placed((CPU, 2)), CUDA)
    assert (caught.value.code, caught.value.name) == (9, "NotAvailable")
    assert str(caught.value).endswith(f"Conv cpu_0 on {CPU}; Conv cpu_1 on {CPU}")
    assert "--provider" in caught.value.hint


def test_a_provider_that_ran_none_is_refused_whatever_was_before() -> None:
    with pytest.raises(core.Failure, match="runs none"):
        demand(Placed((CPU, 2)), CUDA, {CUDA: 3, CPU: 2})
    with pytest.raises(core.Failure, match="runs none"):
        demand(Placed((CPU, 2), (CUDA, 0)), CUDA, {CPU: 2})


def test_more_nodes_elsewhere_than_before() -> None:
    with pytest.raises(core.Failure, match="runs only 3 of the model's 5 nodes: Conv cpu_0") as caught:
        demand(Placed((CUDA, 3), (CPU, 2)), CUDA, {CUDA: 4, CPU: 1})
    assert caught.value.code == 9


def test_a_part_elsewhere_needs_a_record_that_it_was_there() -> None:
    for before in (None, {}, {CUDA: 5}):
        with pytest.raises(core.Failure, match="runs only 4 of the model's 5 nodes"):
            demand(Placed((CUDA, 4), (CPU, 1)), CUDA, before)


@pytest.mark.parametrize(
    ("parts", "before"),
    [
        ([(CUDA, 5)], None),
        ([(CUDA, 4), (CPU, 1)], {CUDA: 4, CPU: 1}),
        ([(CUDA, 2), (CPU, 1), (CUDA, 2)], {CUDA: 4, CPU: 1}),
        ([(CUDA, 5)], {CUDA: 4, CPU: 1}),
        ([], None),
    ],
    ids=["all of them", "as before", "in several parts", "more than before", "an empty graph"],
)
def test_no_fewer_than_before(parts: list[tuple[str, int]], before: dict[str, int] | None) -> None:
    demand(Placed(*parts), CUDA, before)


def test_long_lists_are_cut() -> None:
    with pytest.raises(core.Failure) as caught:
        demand(Placed((CPU, 13)), CUDA)
    assert str(caught.value).count("Conv cpu_") == 10
    assert str(caught.value).endswith("; and 3 more")


def test_the_cpu_is_never_refused() -> None:
    demand(Placed((CPU, 4)), CPU)
    demand(Placed((CPU, 4)), CPU, {CPU: 9})


def test_a_runtime_that_does_not_tell() -> None:
    assert core.placement(OlderRuntime()) is None
    demand(OlderRuntime(), CUDA)
    demand(OlderRuntime(), CUDA, {CUDA: 4})


def test_nodes_without_a_name_are_listed_by_operator() -> None:
    class Unnamed(Placed):
        def get_provider_graph_assignment_info(self) -> list[Part]:
            return [Part(CPU, [Node("Relu", "")])]

    assert core.placement(Unnamed()) == {CPU: ["Relu"]}


def test_a_real_session_tells_where_its_nodes_run(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["h"], name="first"), node("Exp", ["h"], ["y"], name="second")]
    made = model(nodes, [floats("x", "n", 2)], [floats("y", "n", 2)])
    session = core.open_session(write(made, tmp_path / "m.onnx"), SETTINGS)
    assert core.placement(session) == {CPU: ["Relu first", "Exp second"]}
    with pytest.raises(core.Failure, match="Relu first on CPUExecutionProvider; Exp second on CPUExecutionProvider"):
        demand(session, CUDA)


def two_nodes(place: Path) -> str:
    nodes = [node("Relu", ["x"], ["h"], name="first"), node("Exp", ["h"], ["y"], name="second")]
    return write(model(nodes, [floats("x", "n", 2)], [floats("y", "n", 2)]), place / "m.onnx")


FEEDS = {"x": np.ones((1, 2), np.float32)}


def test_the_profile_of_a_run_tells_too(tmp_path: Path) -> None:
    """As a runtime does that does not tell by itself."""
    placed = TEMPLATE.profiled(two_nodes(tmp_path), SETTINGS, FEEDS)
    assert placed == {CPU: ["Relu first", "Exp second"]}
    assert core.counted(placed) == {CPU: 2}
    with pytest.raises(core.Failure, match="runs none of the model's 2 nodes: Relu first on CPUExecutionProvider"):
        TEMPLATE.demand_nodes(placed, {"execution_provider": CUDA})
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]


def test_what_the_session_tells_is_enough(tmp_path: Path) -> None:
    """Else the model would be loaded once more: this path does not even exist."""
    told = Placed((CUDA, 2))
    assert core.proved_placement(told, tmp_path / "none", {"execution_provider": CUDA}, {}) == core.placement(told)
    assert core.proved_placement(OlderRuntime(), tmp_path / "none", {"execution_provider": CPU}, {}) is None


@pytest.mark.parametrize("silent", [OlderRuntime(), Placed(), Placed((CPU, 2))], ids=["old", "nothing", "too little"])
def test_where_it_tells_too_little_one_run_is_profiled(tmp_path: Path, silent: Any) -> None:
    with pytest.raises(core.Failure, match="CUDAExecutionProvider is not available here"):
        core.proved_placement(silent, two_nodes(tmp_path), SETTINGS | {"execution_provider": CUDA}, FEEDS)
