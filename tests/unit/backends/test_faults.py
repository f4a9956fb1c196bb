"""Each fault really changes the model, and only as it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from artifactctl.backends import faults, graph, reality
from artifactctl.backends.host import OLDEST_OPSET, make_host
from artifactctl.crew import Crew
from artifactctl.project import ModelConfig, Source
from artifactctl.records import ReferenceModel
from artifactctl.steps.export import make_reference
from artifactctl.steps.source import read_source

from .small import floats, model, node, write

Asked = dict[str, Any]
RNG = np.random.default_rng(99)


class Hosted:
    """A host with its plan and its answers, as the command has them."""

    def __init__(self, source: str | None, folder: Path, crew: Crew) -> None:
        host = folder / "host" / "host.onnx"
        self.info = make_host(source, str(host))
        config = ModelConfig("host", Source("onnx", host.name))
        self.reference: ReferenceModel = make_reference(
            read_source(config, host.parent, folder, crew), "cpu", folder, crew
        )
        self.folder = folder

    def inject(self, name: str) -> tuple[dict[str, Any], Path]:
        target, reference = self.folder / name / "model.onnx", self.reference
        plan = dict(reference.plan)
        made = faults.inject(name, str(reference.path), self.info, plan, str(reference.samples), str(target))
        return made, target

    def ask(self, path: Path, feeds: Asked) -> Asked:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))

    def both(self, name: str, feeds: Asked) -> tuple[Asked, Asked]:
        """Answers of the host and of the host with the fault."""
        made, target = self.inject(name)
        assert made["applicable"], made["why"]
        return self.ask(self.reference.path, feeds), self.ask(target, feeds)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with Crew() as crew:
        yield Hosted(None, tmp_path_factory.mktemp("cnn"), crew)


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Callable[[onnx.ModelProto], Hosted]]:
    with Crew() as crew:
        yield lambda made: Hosted(write(made, tmp_path / "source.onnx"), tmp_path, crew)


def image(batch: int = 3, size: int = 64) -> Asked:
    """The same whichever tests ran before: on an image with small scores a clipped output shows nothing."""
    return {"image": np.random.default_rng(5).standard_normal((batch, 3, size, size)).astype(np.float32)}


def changed(one: Asked, other: Asked) -> set[str]:
    return {name for name in one if not np.array_equal(one[name], other.get(name), equal_nan=name in ("scores",))}


def test_the_host_has_an_output_of_every_kind(host: Hosted) -> None:
    answers = host.ask(host.reference.path, image())
    assert [array.dtype.kind for array in answers.values()] == ["f", "f", "b", "i", "O"]
    np.testing.assert_allclose(answers["selftest_twin"], answers["scores"] * 0.5 + 1, rtol=1e-6)
    assert list(answers["selftest_int"][1:]) == [3, 6]


@pytest.mark.parametrize("name", faults.FAULTS)
def test_every_fault_changes_the_small_model(host: Hosted, name: str) -> None:
    made, target = host.inject(name)
    assert made["applicable"], made["why"]
    assert made["where"]
    if name == "truncated_external_data":
        with pytest.raises(Exception, match="bounds"):
            host.ask(target, image())
        return
    feeds = image(size=65) if name == "only_second_size" else image()
    before, after = host.ask(host.reference.path, feeds), host.ask(target, feeds)
    assert before.keys() != after.keys() or any(reality.apart(before[key], after[key]) for key in before)


@pytest.mark.parametrize(("name", "odd"), [("nan", np.isnan), ("infinity", np.isinf)])
def test_one_element_only(host: Hosted, name: str, odd: Callable[[Any], Any]) -> None:
    before, after = host.both(name, image())
    assert odd(after["scores"]).sum() == 1
    assert odd(after["scores"]).argmax() == before["scores"].argmax()
    assert changed(before, after) == {"scores"}


@pytest.mark.parametrize(
    ("name", "output"), [("flipped_boolean", "selftest_bool"), ("changed_integer", "selftest_int")]
)
def test_one_exact_value_only(host: Hosted, name: str, output: str) -> None:
    before, after = host.both(name, image())
    assert np.count_nonzero(before[output] != after[output]) == 1
    assert changed(before, after) == {output}


def test_twice_the_bound(host: Hosted) -> None:
    before, after = host.both("bias", image())
    np.testing.assert_allclose(after["scores"] - before["scores"], 2e-3, rtol=1e-3)


def test_only_batches_show_another_order(host: Hosted) -> None:
    alone = image(batch=1)
    assert changed(*host.both("reordered_rows", alone)) == set()
    before, after = host.both("reordered_rows", image())
    np.testing.assert_array_equal(after["scores"], before["scores"][::-1])


def test_only_another_size_shows_it(host: Hosted) -> None:
    assert changed(*host.both("only_second_size", image())) == set()
    assert changed(*host.both("only_second_size", image(size=80))) == {"scores"}


def test_a_shape_that_numpy_would_broadcast(host: Hosted) -> None:
    before, after = host.both("broadcast_shape", image())
    assert after["scores"].shape == (1, *before["scores"].shape)
    assert np.allclose(before["scores"], after["scores"])


def test_stale_input_leaves_the_added_outputs_alone(host: Hosted) -> None:
    assert changed(*host.both("stale_input", image())) == {"scores", "selftest_twin"}


def test_the_last_bit_is_no_fault(host: Hosted) -> None:
    before, after = host.both("one_ulp", image())
    assert 0 < np.abs(before["scores"] - after["scores"]).max() < 1e-6


def dense(weights: dict[str, np.ndarray], element: type = np.float32) -> onnx.ModelProto:
    nodes, last = [], "x"
    for name in weights:
        nodes.append(node("MatMul", [last, name], [f"after_{name}"]))
        last = f"after_{name}"
    made = model(nodes, [floats("x", "batch", 8)], [floats(last, "batch", 8)])
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(element))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = kind
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(element), name) for name, array in weights.items()
    )
    return made


def test_a_weight_that_cannot_show_it_is_left_for_the_next(hosted: Callable[[onnx.ModelProto], Hosted]) -> None:
    same, other = np.eye(8) * 2, RNG.standard_normal((8, 8))
    made, _ = hosted(dense({"same": same, "other": other})).inject("transposed_weight")
    assert made["where"] == "weight 'other' [8, 8]"


def test_a_fault_without_effect_does_not_count(hosted: Callable[[onnx.ModelProto], Hosted]) -> None:
    made, _ = hosted(dense({"same": np.eye(8) * 2})).inject("transposed_weight")
    assert not made["applicable"]
    assert made["why"] == "weight 'same' [8, 8]: no answer changes clearly"


@pytest.mark.parametrize("element", [np.float16, np.float64])
def test_other_floats(hosted: Callable[[onnx.ModelProto], Hosted], element: type) -> None:
    found = hosted(dense({"w": RNG.standard_normal((8, 8))}, element))
    for name in faults.FAULTS:
        made, _ = found.inject(name)
        assert made["applicable"], (name, made["why"])
    feeds = {"x": RNG.standard_normal((2, 8)).astype(element)}
    _, after = found.both("wrong_dtype", feeds)
    assert after["after_w"].dtype == (np.float16 if element is np.float64 else np.float64)


def test_names_do_not_collide(hosted: Callable[[onnx.ModelProto], Hosted]) -> None:
    nodes = [node("Neg", ["x"], ["selftest_twin"]), node("Exp", ["selftest_twin"], ["selftest_bool"])]
    found = hosted(model(nodes, [floats("x", "batch", 4)], [floats("selftest_bool", "batch", 4)]))
    names = [value.name for value in graph.load(found.reference.path).graph.output]
    assert len(names) == len(set(names)) == 5
    assert found.info["own"] == ["selftest_bool"]
    assert found.inject("swapped_outputs")[0]["applicable"]


def test_a_class_is_traced_back_to_its_scores(hosted: Callable[[onnx.ModelProto], Hosted]) -> None:
    nodes = [node("Neg", ["x"], ["scores"]), node("ArgMax", ["scores"], ["y"], axis=-1, keepdims=0)]
    best = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, ["batch"])
    found = hosted(model(nodes, [floats("x", "batch", 4)], [best]))
    assert found.info["target"] == "'scores', which feeds an output"
    assert found.inject("changed_integer")[0]["where"] == "output 'y'"


def test_an_old_opset_is_raised(hosted: Callable[[onnx.ModelProto], Hosted]) -> None:
    made = model([node("Neg", ["x"], ["y"])], [floats("x", "batch", 4)], [floats("y", "batch", 4)])
    made.opset_import[0].version = 7
    found = hosted(made)
    assert graph.load(found.reference.path).opset_import[0].version == OLDEST_OPSET
    assert found.inject("nan")[0]["applicable"]
