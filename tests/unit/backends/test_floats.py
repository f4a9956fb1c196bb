from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from artifactctl.backends.consumers import Consumers, describe_input
from artifactctl.backends.floats import looks_like_image

from .small import floats, model, node
from .test_ranges import draw, inputs_of, open_model, tensor

DRAWS = 20


def single(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@dataclass(frozen=True)
class Case:
    """A graph whose input `x` gets this range; None: plain floats."""

    id: str
    nodes: list[NodeProto]
    expected: tuple[float, float] | None
    weights: dict[str, Any] = field(default_factory=dict)
    x: ValueInfoProto = field(default_factory=lambda: floats("x", "n", 4))
    output: int = TensorProto.FLOAT
    metadata: dict[str, str] = field(default_factory=dict)

    def make(self) -> ModelProto:
        made = model(self.nodes, [self.x], [tensor("y", self.output, None)], self.weights)
        made.graph.output[0].type.tensor_type.ClearField("shape")
        for key, value in self.metadata.items():
            made.metadata_props.add(key=key, value=value)
        return made


def quantize(
    kind: type, scale: float, zero: int, *before: NodeProto, used: str = "x", **weights: Any
) -> dict[str, Any]:
    nodes = [*before, node("QuantizeLinear", [used, "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    return {"nodes": nodes, "weights": {"s": single(scale), "z": np.array(zero, kind)} | weights}


def clip(low: float, high: float) -> dict[str, Any]:
    return {"nodes": [node("Clip", ["x", "a", "b"], ["y"])], "weights": {"a": single(low), "b": single(high)}}


def with_constant(kind: str, value: Any) -> dict[str, Any]:
    return {"nodes": [node(kind, ["x", "c"], ["y"])], "weights": {"c": np.asarray(value, np.float32)}}


IMAGE = floats("x", "n", 3, 16, 16)
RELU = [node("Relu", ["x"], ["y"])]
PIXELS = "Image.NominalPixelRange"
PLUS_ONE = node("Add", ["x", "one"], ["p"])

CASES = [
    Case("pixels 0..255", RELU, (0, 255), x=IMAGE, metadata={PIXELS: "NominalRange_0_255"}),
    Case("pixels 0..1", RELU, (0, 1), x=IMAGE, metadata={PIXELS: "Normalized_0_1"}),
    Case("pixels -1..1", RELU, (-1, 1), x=IMAGE, metadata={PIXELS: "Normalized_1_1"}),
    Case("pixels 16..235", RELU, (16, 235), x=IMAGE, metadata={PIXELS.upper(): "NOMINALRANGE_16_235"}),
    Case("pixels of something else", RELU, None, metadata={PIXELS: "Normalized_0_1"}),
    Case("an unknown word", RELU, None, x=IMAGE, metadata={PIXELS: "Normalized_9"}),
    Case("uint8", expected=(-5, 20.5), **quantize(np.uint8, 0.1, 50)),
    Case("int8", expected=(-64, 63.5), **quantize(np.int8, 0.5, 0)),
    Case("uint8 behind others", expected=(0, 25.5),
         **quantize(np.uint8, 0.1, 0, node("Transpose", ["x"], ["t"], perm=[1, 0]), used="t")),
    Case("uint8 behind a division", expected=(0, 510),
         **quantize(np.uint8, 0.2, 0, node("Div", ["x", "d"], ["t"]), used="t", d=single(10))),
    Case("quantized without end", expected=None, **quantize(np.uint8, 1e6, 0)),
    Case("clipped", expected=(-0.6, 6.6), **clip(0, 6)),
    Case("clipped for float16", expected=None, **clip(-65504, 65504)),
    Case("clipped to nothing", expected=None, **clip(3, 3)),
    Case("clipped the wrong way round", expected=None, **clip(6, 0)),
    Case("clipped below", [node("Clip", ["x", "a"], ["y"])], None, {"a": single(0)}),
    Case("/ 255", expected=(0, 255), **with_constant("Div", 255)),
    Case("/ 255 a channel", expected=(0, 255), **with_constant("Div", [255] * 4)),
    Case("* 1/255", expected=(0, 255), **with_constant("Mul", 1 / 255)),
    Case("/ 127.5", expected=(0, 255), **with_constant("Div", 127.5)),
    Case("/ 7", expected=None, **with_constant("Div", 7)),
    Case("255 / x", [node("Div", ["c", "x"], ["y"])], None, {"c": single(255)}),
    Case("Log", [node("Log", ["x"], ["y"])], (0.01, 10)),
    Case("Log of x + 1", [PLUS_ONE, node("Log", ["p"], ["y"])], (-0.99, 9), {"one": single(1)}),
    Case("Sqrt", [node("Sqrt", ["x"], ["y"])], (0.01, 10)),
    Case("Acos", [node("Acos", ["x"], ["y"])], (-1, 1)),
    Case("Asin", [node("Asin", ["x"], ["y"])], (-1, 1)),
    Case("Atanh", [node("Atanh", ["x"], ["y"])], (-0.99, 0.99)),
    Case("Acosh", [node("Acosh", ["x"], ["y"])], (1, 10)),
    Case("Log and Asin", [node("Log", ["x"], ["l"]), node("Asin", ["x"], ["a"]), node("Add", ["l", "a"], ["y"])],
         (0.01, 1)),
    Case("a root", expected=(0.01, 10), **with_constant("Pow", 0.3)),
    Case("a square", expected=None, **with_constant("Pow", 2)),
    Case("float indices", [node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Gather", ["t", "i"], ["y"])], (0, 4),
         {"t": np.zeros((5, 2), np.float32)}),
    Case("Resize", [node("Resize", ["x", "", "s"], ["y"])], None, {"s": np.ones(2, np.float32)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_draw_is_answered_with_numbers(case: Case) -> None:
    made = case.make()
    [found] = inputs_of(made)
    ends = found.get("range") or found.get("soft")
    assert found["fill"] in ("float", "range")
    assert ends is None if case.expected is None else ends == pytest.approx(case.expected, rel=1e-5)
    session = open_model(made)
    for number in range(DRAWS):
        feeds = draw([found if case.expected is None else found | {"fill": "range", "range": ends}], number)
        [answer, *_] = session.run(None, feeds)
        assert np.isfinite(answer).all()
        if case.expected is not None:
            assert case.expected[0] - 1e-5 <= feeds["x"].min() <= feeds["x"].max() <= case.expected[1] + 1e-4


@pytest.mark.parametrize("kind", ["Log", "Sqrt", "Acos", "Asin", "Atanh", "Acosh"])
def test_plain_floats_would_not_do(kind: str) -> None:
    """The answers above are numbers because of the range."""
    made = Case("", [node(kind, ["x"], ["y"])], None).make()
    [spec] = inputs_of(made)
    answers = [open_model(made).run(None, draw([spec | {"fill": "float"}], number))[0] for number in range(DRAWS)]
    assert not np.isfinite(answers).all()


def test_of_several_inputs_the_metadata_speak_of_the_image() -> None:
    made = model(RELU, [IMAGE, floats("other", "n", 3, 16, 16)], [floats("y")])
    made.graph.input[1].type.denotation = "IMAGE"
    made.metadata_props.add(key=PIXELS, value="Normalized_0_1")
    first, second = inputs_of(made)
    assert ("soft" in first, "soft" in second) == (False, True)


def test_scales_keep_batch_and_channels() -> None:
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    made = model(nodes, [IMAGE, floats("scales", 4)], [floats("y", None, None, None, None)])
    inputs = inputs_of(made)
    assert inputs[1]["values"] == [1.0]
    for number in range(DRAWS):
        open_model(made).run(None, draw(inputs, number))


def test_the_keys_of_an_encoder() -> None:
    encoder = node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_floats=[0.5, 2.0], values_int64s=[1, 2])
    made = model([encoder], [floats("x", "n")], [tensor("y", TensorProto.INT64, "n")], domains=("ai.onnx.ml",))
    [found] = inputs_of(made)
    assert (found["fill"], found["values"]) == ("values", [0.5, 2.0])


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("x", ["n", 3, 224, 224], True),
        ("x", ["n", 1, "height", "width"], True),
        ("x", ["n", 224, 224, 4], True),
        ("x", [1, None, None, 3], True),
        ("x", ["n", 3, 224], False),
        ("x", ["n", 12, 16, 64], False),
        ("x", ["n", 3, 2, 2], False),
        ("past_key_values.0.key", ["n", 4, "past", 64], False),
    ],
)
def test_images_by_their_shape(name: str, shape: list[Any], expected: bool) -> None:
    value = {"name": name, "dtype": "float32", "shape": shape}
    assert looks_like_image(value) is expected
    found = describe_input(value, Consumers(model([], [], [])))
    assert found.get("image", False) is expected
    assert found["why"] == ("an image by its shape" if expected else "floats")


def test_a_likely_range_is_not_all_that_is_tried() -> None:
    """Only `uniform` keeps to it; what an operator needs is kept to by all kinds."""
    likely, needed = (inputs_of(Case("", **made, expected=None).make())[0] for made in (clip(0, 1), {"nodes": [LOG]}))
    feeds = {kind: draw([likely], 1, kind)["x"] for kind in ("normal", "uniform", "outlier")}
    assert -0.11 <= feeds["uniform"].min() <= feeds["uniform"].max() <= 1.11
    assert any(array.min() < -0.2 or array.max() > 1.2 for array in (feeds["normal"], feeds["outlier"]))
    assert all(draw([needed], number, "outlier")["x"].min() > 0 for number in range(DRAWS))


LOG = node("Log", ["x"], ["y"])
