from __future__ import annotations

from typing import Any

from artifactctl import differences
from artifactctl.differences import (
    OperatorChange,
    affordable,
    compare,
    compare_operators,
    compare_weights,
    with_numbers,
)


def weight(name: str, sha256: str = "0", shape: tuple[int, ...] = (2,), **more: Any) -> dict[str, Any]:
    kind = {"stored": "initializer", "dtype": "float32", "float": True}
    return {"name": name, "sha256": sha256, "shape": list(shape)} | kind | more


def described(**more: Any) -> dict[str, Any]:
    found = {"inputs": [], "outputs": [], "operators": [], "weights": [], "opsets": {"ai.onnx": 18}}
    return found | {"structure": "s", "content": "c"} | more


def value(name: str, shape: list[Any]) -> dict[str, Any]:
    return {"name": name, "dtype": "float32", "shape": shape}


def test_weights_of_every_fate() -> None:
    before = [weight(name, name) for name in ("kept", "moved", "old", "gone", "other")]
    after = [
        weight("kept", "kept"),
        weight("moved", "moved", stored="constant"),
        weight("new", "old"),
        weight("fresh", "x"),
        weight("other", "y"),
    ]
    found = compare_weights(before, after)
    assert (found.before, found.after, found.same, found.moved, found.renamed) == (
        5,
        5,
        1,
        ("moved",),
        (("old", "new"),),
    )
    assert [each["name"] for each in (*found.added, *found.removed)] == ["fresh", "gone"]
    assert [each.name for each in found.changed] == ["other"]
    assert found.equal == 3


def test_equal_bytes_of_another_type_or_shape_are_another_weight() -> None:
    for other in (weight("w", "0", (1, 2)), weight("w", "0", dtype="int32")):
        assert len(compare_weights([weight("w", "0")], [other]).changed) == 1
    assert compare_weights([weight("a", "0")], [weight("b", "0", (2, 1))]).renamed == ()


def test_each_weight_is_renamed_once() -> None:
    found = compare_weights([weight("a"), weight("b")], [weight("c")])
    assert found.renamed == (("a", "c"),)
    assert [each["name"] for each in found.removed] == ["b"]
    found = compare_weights([weight("a")], [weight("d"), weight("c")])
    assert found.renamed == (("a", "c"),)
    assert [each["name"] for each in found.added] == ["d"]


def test_operators_by_the_size_of_the_change() -> None:
    counts = {"Relu": (1, 2), "Conv": (5, 0), "Add": (3, 3), "Gemm": (0, 1)}
    sides = [
        described(
            operators=[
                {"domain": "ai.onnx", "operator": kind, "count": pair[side]}
                for kind, pair in counts.items()
                if pair[side]
            ]
        )
        for side in (0, 1)
    ]
    assert compare_operators(*sides) == (
        OperatorChange("ai.onnx", "Conv", 5, 0),
        OperatorChange("ai.onnx", "Gemm", 0, 1),
        OperatorChange("ai.onnx", "Relu", 1, 2),
    )


def test_how_much_is_equal() -> None:
    one = described(weights=[weight("w")], inputs=[value("x", [1])])
    cases = [
        (one, True, differences.BYTES),
        (one, False, differences.MODEL),
        (one | {"opsets": {"ai.onnx": 19}}, False, differences.GRAPH),
        (one | {"inputs": [value("x", [2])]}, False, differences.GRAPH),
        (one | {"content": "d"}, False, differences.GRAPH),
        (one | {"content": "d", "structure": "t"}, False, differences.NOTHING),
    ]
    for other, equal_bytes, expected in cases:
        found = compare(one, other, equal_bytes=equal_bytes)
        assert (found.equal, found.same) == (expected, expected in (differences.BYTES, differences.MODEL))


def test_nothing_in_common() -> None:
    one = described(weights=[weight("w", "1")], inputs=[value("x", [1])])
    strange = {"structure": "t", "content": "d"}
    assert not compare(one, described(weights=[weight("v", "2")], **strange), equal_bytes=False).in_common
    for other in (
        described(weights=[weight("v", "1")], **strange),
        described(weights=[weight("w", "2")], **strange),
        described(outputs=[value("x", [1])], **strange),
    ):
        assert compare(one, other, equal_bytes=False).in_common


def test_the_work_is_bounded_and_small_weights_come_first() -> None:
    sizes = {"large": (1000,), "a": (10,), "b": (10, 5)}
    before = [weight(name, "1", shape) for name, shape in sizes.items()]
    before += [weight("ids", "1", float=False), weight("grown", "1", (3,))]
    after = [each | {"sha256": "2"} for each in before[:-1]] + [weight("grown", "2", (4,))]
    found = compare(described(weights=before), described(weights=after, content="d"), equal_bytes=False)
    names = affordable(found.weights.changed, most=100)
    assert names == ["a", "b"]
    numbers = {
        "a": {"elements_changed": 1, "max_abs": 0.1, "max_rel": 0.1},
        "b": {"elements_changed": 9, "max_abs": 0.2, "max_rel": 0.9},
    }
    counted = with_numbers(found, numbers).weights
    assert [each.name for each in counted.changed] == ["grown", "ids", "large", "b", "a"]
    assert counted.not_compared == 1
