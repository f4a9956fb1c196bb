"""Each rewrite gives the same answers with fewer operators, and leaves alone what it must not touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from artifactctl.backends.algebra import REWRITES, rewrite
from tests.unit.backends.rewriting import answers, rewritten
from tests.unit.backends.small import floats, ints, model, node

RNG = np.random.default_rng(7)
IMAGE = {"x": RNG.standard_normal((2, 4, 6, 6)).astype(np.float32) * 4}
WEIGHTS = {
    "w": RNG.standard_normal((8, 4, 3, 3)).astype(np.float32),
    "b": RNG.standard_normal(8).astype(np.float32),
    "v": RNG.standard_normal((8, 1, 3, 3)).astype(np.float32),
    "u": RNG.standard_normal((5, 8, 1, 1)).astype(np.float32),
}
X, Y = floats("x", "n", 4, "h", "w"), floats("y", "n", None, None, None)


def conv(source: str = "x", target: str = "c", **attributes: Any) -> onnx.NodeProto:
    return node("Conv", [source, "w", "b"], [target], **attributes)


def in_pieces(value: str, target: str, last: onnx.NodeProto | None = None) -> list[onnx.NodeProto]:
    return [
        node("Add", [value, "three"], ["plus"]),
        node("Clip", ["plus", "zero", "six"], ["clipped"]),
        node("Mul", [value, "clipped"], ["product" if last else target]),
        *([last] if last else []),
    ]


NUMBERS = {"three": 3.0, "zero": 0.0, "six": 6.0, "sixth": 1 / 6}
SCALARS = {name: np.array(value, np.float32) for name, value in NUMBERS.items()}


@pytest.mark.parametrize("last", [node("Div", ["product", "six"], ["y"]), node("Mul", ["sixth", "product"], ["y"])])
def test_a_hard_swish_in_pieces(last: onnx.NodeProto) -> None:
    made = model([conv(), *in_pieces("c", "y", last)], [X], [Y], WEIGHTS | SCALARS)
    done, left = rewritten(made, IMAGE)
    assert done == {"hard_swish": 1}
    assert left == {"Conv": 1, "HardSwish": 1}


def test_a_hard_swish_before_it_had_a_name() -> None:
    made = model(in_pieces("x", "y", node("Div", ["product", "six"], ["y"])), [X], [Y], SCALARS)
    made.opset_import[0].version = 13
    done, left = rewritten(made, IMAGE)
    assert done == {"hard_swish": 1}
    assert left == {"HardSigmoid": 1, "Mul": 1}


def test_a_hard_swish_without_its_division_keeps_the_factor() -> None:
    done, left = rewritten(model(in_pieces("x", "y"), [X], [Y], SCALARS), IMAGE)
    assert done == {"hard_swish": 1}
    assert left == {"HardSwish": 1, "Mul": 1}


def test_other_limits_are_no_hard_swish() -> None:
    made = model(in_pieces("x", "y"), [X], [Y], SCALARS | {"six": np.array(5, np.float32)})
    assert rewritten(made, IMAGE)[0] == {}


def test_what_somebody_else_takes_stays() -> None:
    made = model(in_pieces("x", "y"), [X], [Y, floats("clipped", "n", 4, "h", "w")], SCALARS)
    assert rewritten(made, IMAGE)[0] == {}


@pytest.mark.parametrize("shape", [(), (1,), (8, 1, 1), (1, 8, 1, 1)])
def test_factors_behind_a_convolution_go_into_it(shape: tuple[int, ...]) -> None:
    constants = {name: RNG.uniform(0.5, 2, shape).astype(np.float32) for name in ("f", "g", "h", "i")}
    chain = [
        node("Mul", ["f", "c"], ["1"]),
        node("Add", ["1", "g"], ["2"]),
        node("Sub", ["h", "2"], ["3"]),
        node("Div", ["3", "i"], ["y"]),
    ]
    done, left = rewritten(model([conv(pads=[1] * 4), *chain], [X], [Y], WEIGHTS | constants), IMAGE)
    assert done == {"into_conv": 1}
    assert left == {"Conv": 1}


def affine(source: str, target: str) -> list[onnx.NodeProto]:
    return [node("Mul", [source, "f"], ["scaled"]), node("Add", ["scaled", "g"], [target])]


FACTORS = {"f": np.array([1.5], np.float32), "g": np.array([-0.25], np.float32)}


def test_factors_before_convolutions_go_into_all_of_them() -> None:
    nodes = [
        conv(),
        node("Relu", ["c"], ["r"]),
        *affine("r", "a"),
        node("Conv", ["a", "u"], ["y"]),
        node("Conv", ["a", "v"], ["z"], group=8),
    ]
    made = model(nodes, [X], [Y, floats("z", "n", 8, None, None)], WEIGHTS | FACTORS)
    done, left = rewritten(made, IMAGE)
    assert done == {"into_conv": 1}
    assert left == {"Conv": 3, "Relu": 1}


def test_an_addition_before_a_padded_convolution_becomes_one_of_its_own() -> None:
    nodes = [
        conv(),
        node("Relu", ["c"], ["r"]),
        *affine("r", "a"),
        node("Conv", ["a", "v"], ["y"], group=8, pads=[1] * 4),
    ]
    done, left = rewritten(model(nodes, [X], [Y], WEIGHTS | FACTORS), IMAGE)
    assert done == {"one_convolution": 1}
    assert left == {"Conv": 3, "Relu": 1}


def test_an_output_on_the_way_keeps_its_value() -> None:
    made = model([conv(), *affine("c", "y")], [X], [Y, floats("c", "n", 8, None, None)], WEIGHTS | FACTORS)
    assert rewritten(made, IMAGE)[0] == {"one_convolution": 1}  # which is beside it


def test_a_constant_along_the_width_is_no_factor_of_channels() -> None:
    wide = {"f": RNG.uniform(0.5, 2, (1, 1, 1, 4)).astype(np.float32), "g": np.ones((4, 1), np.float32)}
    assert rewritten(model([conv(), *affine("c", "y")], [X], [Y], WEIGHTS | wide), IMAGE)[0] == {}


def test_a_value_that_a_branch_takes_stays() -> None:
    bodies = {
        f"{name}_branch": helper.make_graph(
            [node("Identity", ["c"], [name])], name, [], [floats(name, None, None, None, None)]
        )
        for name in ("then", "else")
    }
    nodes = [conv(), node("If", ["which"], ["z"], **bodies), *affine("c", "y")]
    outputs = [Y, floats("z", "n", 8, None, None)]
    which = helper.make_tensor_value_info("which", TensorProto.BOOL, [])
    made = model(nodes, [X, which], outputs, WEIGHTS | FACTORS)
    assert rewritten(made, IMAGE | {"which": np.array(True)})[0] == {"one_convolution": 1}


BEHIND = node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2])


@pytest.mark.parametrize(
    ("slope", "changed"),
    [((8, 1, 1), True), ((1, 8, 1, 1), True), ((1,), True), ((4,), False)],  # the last is along the width
)
def test_a_prelu_between_convolutions(slope: tuple[int, ...], changed: bool) -> None:
    slopes = {"s": RNG.uniform(-0.5, 0.9, slope).astype(np.float32)}
    made = model([conv(), node("PRelu", ["c", "s"], ["p"]), BEHIND], [X], [Y], WEIGHTS | slopes)
    done, left = rewritten(made, IMAGE)
    assert done == ({"prelu": 1} if changed else {})
    assert left["PRelu"] == (0 if changed else 1)


def test_a_steep_slope_stays() -> None:
    slopes = {"s": np.full((8, 1, 1), 1.5, np.float32)}
    made = model([conv(), node("PRelu", ["c", "s"], ["p"]), BEHIND], [X], [Y], WEIGHTS | slopes)
    assert rewritten(made, IMAGE)[0] == {}


def test_a_prelu_that_no_convolution_follows_stays() -> None:
    """What takes it takes it in another layout anyway."""
    slopes = {"s": np.full((8, 1, 1), 0.5, np.float32)}
    nodes = [conv(), node("PRelu", ["c", "s"], ["p"]), node("Transpose", ["p"], ["y"], perm=[0, 2, 3, 1])]
    assert rewritten(model(nodes, [X], [Y], WEIGHTS | slopes), IMAGE)[0] == {}


def test_a_prelu_of_few_values_stays() -> None:
    slopes = {"s": np.full((8, 1, 1), 0.5, np.float32)}
    for size, changed in ((16, {}), (64, {"prelu": 1})):
        made = model(
            [conv(), node("PRelu", ["c", "s"], ["p"]), BEHIND], [floats("x", "n", 4, size, size)], [Y], WEIGHTS | slopes
        )
        feeds = {"x": RNG.standard_normal((2, 4, size, size)).astype(np.float32)}
        assert rewritten(made, feeds)[0] == changed


def test_a_prelu_whose_convolution_is_seen_by_others_stays() -> None:
    slopes = {"s": np.full((8, 1, 1), 0.5, np.float32)}
    outputs = [Y, floats("c", "n", 8, None, None)]
    made = model([conv(), node("PRelu", ["c", "s"], ["p"]), BEHIND], [X], outputs, WEIGHTS | slopes)
    assert rewritten(made, IMAGE)[0] == {}


def one_hot(numbers: np.ndarray) -> onnx.ModelProto:
    nodes = [
        node("Unsqueeze", ["x", "last"], ["column"]),
        node("Equal", ["column", "numbers"], ["same"]),
        node("Cast", ["same"], ["hot"], to=TensorProto.FLOAT),
        node("MatMul", ["hot", "table"], ["rows"]),
        node("Add", ["rows", "bias"], ["biased"]),
        node("Tanh", ["biased"], ["bent"]),
        node("Mul", ["biased", "bent"], ["y"]),
    ]
    weights = {
        "last": np.array([-1]),
        "numbers": numbers,
        "table": RNG.standard_normal((5, 3)).astype(np.float32),
        "bias": RNG.standard_normal((1, 1, 3)).astype(np.float32),
    }
    return model(nodes, [ints("x", "n", "t")], [floats("y", "n", "t", 3)], weights)


def test_a_one_hot_product_is_a_row_and_what_follows_is_tabulated() -> None:
    feeds = {"x": np.array([[0, 1, 4, 5, -1], [2, 3, 999, -999, 4]])}  # some are no row's number
    done, left = rewritten(one_hot(np.arange(5).reshape(1, 1, 5)), feeds)
    assert done == {"one_hot": 1, "tabulate": 3}
    assert not left.keys() & {"MatMul", "Tanh", "Mul", "Add"}


def test_other_numbers_are_no_rows() -> None:
    done, _ = rewritten(one_hot(np.array([[[0, 1, 2, 4, 3]]])), {"x": np.array([[0, 4]])})
    assert done == {}


def test_weights_that_are_listed_as_inputs_become_constants() -> None:
    used = {name: WEIGHTS[name] for name in ("w", "b")}
    made = model([conv()], [X, floats("w", 8, 4, 3, 3)], [floats("c", "n", 8, None, None)], used)
    made.ir_version = 3
    made.graph.input.append(floats("b", 8))
    done, _ = rewritten(made, IMAGE)
    assert done == {"constants": 2}
    assert [entry.name for entry in made.graph.input] == ["x"]
    assert made.ir_version == 4


def test_what_has_nothing_to_rewrite_stays_as_it_is() -> None:
    made = model([node("Relu", ["x"], ["y"])], [X], [Y])
    before = made.SerializeToString()
    assert not any(rewrite(made, list(REWRITES)).values())
    assert made.SerializeToString() == before


def test_weights_that_lie_outside_are_read_from_there(tmp_path: Path) -> None:
    made = model([conv(), *affine("c", "y")], [X], [Y], {name: WEIGHTS[name] for name in ("w", "b")} | FACTORS)
    before = answers(made, IMAGE)
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=64)
    light = onnx.load(str(tmp_path / "m.onnx"), load_external_data=False)
    assert rewrite(light, ["into_conv"], tmp_path)["into_conv"] == 1
    np.testing.assert_allclose(answers(light, IMAGE)[0], before[0], rtol=2e-5, atol=2e-5)


def test_a_model_that_was_rewritten_before_gets_other_names() -> None:
    """Each pass of a recipe is a rewrite of its own, and so is a build of what another build made."""
    made = model([conv(), *in_pieces("c", "h"), node("Conv", ["h", "v"], ["y"], group=8)], [X], [Y], WEIGHTS | SCALARS)
    first = rewritten(made, IMAGE)[0]
    made.graph.node[-1].output[0] = "z"
    made.graph.node.extend(in_pieces("z", "y"))
    made.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in SCALARS.items())
    again = rewritten(made, IMAGE)[0]
    assert first["hard_swish"] == again["hard_swish"] == 1


def listing(light: int, heavy: int) -> onnx.ModelProto:
    """A convolution of 64 groups (64 · 9 values), one of `light` channels and one of `heavy`, then a transposed one."""
    shapes = {"b": (64,), "v": (64, 1, 3, 3), "u": (light, 64, 1, 1), "w": (heavy, light, 1, 1), "t": (heavy, 8, 2, 2)}
    weights = {name: (RNG.standard_normal(shape) / 8).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        node("Conv", ["x", "v", "b"], ["c"], group=64),
        node("Conv", ["c", "u"], ["d"]),
        node("Conv", ["d", "w"], ["e"]),
        node("ConvTranspose", ["e", "t"], ["y"]),
    ]
    return model(nodes, [floats("x", "n", 64, 9, 9)], [floats("y", "n", 8, None, None)], weights)


@pytest.mark.parametrize(
    ("light", "heavy", "inputs"),
    [
        (8, 700, ["t", "w", "x"]),  # a twelfth of 29,088 values: the 576 of the groups and 512 more
        (8, 200, ["t", "u", "w", "x"]),  # of 9,088: those of the groups, which are not the lightest
    ],
)
def test_heavy_weights_are_inputs_again_and_answers_stay(light: int, heavy: int, inputs: list[str]) -> None:
    """Those of a transposed convolution too; a bias is none."""
    made, image = listing(light, heavy), {"x": RNG.standard_normal((2, 64, 9, 9)).astype(np.float32)}
    before = answers(made, image)
    assert rewrite(made, ["list_heavy"])["list_heavy"] == len(inputs) - 1
    onnx.checker.check_model(made, full_check=True)
    assert sorted(value.name for value in made.graph.input) == inputs
    np.testing.assert_allclose(answers(made, image)[0], before[0], rtol=2e-5, atol=2e-5)
    session = ort.InferenceSession(made.SerializeToString())
    assert [value.name for value in session.get_inputs()] == ["x"], "nobody has to pass them"


def test_a_model_of_an_old_format_gets_one_that_knows_constants() -> None:
    held = {name: onnx.numpy_helper.from_array((WEIGHTS | FACTORS)[name]) for name in ("w", "b", *FACTORS)}
    constants = [node("Constant", [], [name], value=value) for name, value in held.items()]
    made = model([*constants, conv(), *affine("c", "y")], [X], [Y], {})
    made.ir_version = 3
    assert rewritten(made, IMAGE)[0] == {"into_conv": 1}
    assert made.ir_version == 4
    onnx.checker.check_model(made)


@pytest.mark.parametrize(("version", "older"), [("1.24.1", True), ("1.30.0", False)])
def test_a_hard_swish_stays_in_the_layout_of_convolutions(
    version: str, older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort, "__version__", version)
    weights = {"w": RNG.standard_normal((16, 4, 3, 3)).astype(np.float32), "b": np.zeros(16, np.float32)}
    named = model([conv(), node("HardSwish", ["c"], ["y"])], [X], [Y], weights)
    done, left = rewritten(named, IMAGE)
    assert (done, left["Conv"]) == (({"gates": 1}, 2) if older else ({}, 1))
    nodes = [conv(), node("HardSigmoid", ["c"], ["g"], alpha=1 / 6, beta=0.5), node("Mul", ["g", "c"], ["y"])]
    assert rewritten(model(nodes, [X], [Y], weights), IMAGE)[1]["Conv"] == (2 if older else 1)
    nodes[2] = node("Add", ["g", "c"], ["y"])
    assert rewritten(model(nodes, [X], [Y], weights), IMAGE)[0] == {}
    assert rewritten(model([conv(), node("HardSwish", ["c"], ["y"])], [X], [Y], WEIGHTS), IMAGE)[0] == {}  # 8 channels
