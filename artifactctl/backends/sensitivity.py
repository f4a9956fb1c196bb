"""What each layer adds to the error when it alone is int8, from one model in which each can be switched.

It is the float model, with the scales and the int8 weights of the quantized one built in behind switches. So a layer is
quantized as it will be, any set of layers can be asked for, and only one session is opened.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from artifactctl.backends import core, graph
from artifactctl.backends.proof import read_sample
from artifactctl.selection import Cost, Link, cost_of, grow, layer_of, worst

SWITCHES = "~switches"
OUTPUT_SUFFIX = "_QuantizeLinearInput"  # ONNX Runtime keeps the name of a model's output for what comes after

Array = np.ndarray[Any, Any]


def layer_errors(**asked: Any) -> list[dict[str, Any]]:
    """In the order of the selection: each layer's cost alone, and with all before it."""
    with _switched(**asked) as model:
        found = [layer_of(layer, model.cost([layer["name"]])) for layer in asked["layers"]]
        return [_plain(link) for link in grow(found, model.cost)]


def worst_layers(failed: list[str], strain: float | None, **asked: Any) -> list[str]:
    """What to take out of a set that failed with `strain` (None: it could not be compared) on these samples."""
    entries = {layer["name"]: layer for layer in asked["layers"]}
    chosen = {name: layer_of(entries[name], Cost(None, math.inf)) for name in failed}
    with _switched(**asked) as model:
        return worst(chosen, math.inf if strain is None else strain, model.cost)


@contextlib.contextmanager
def _switched(
    plain: str,
    quantized: str,
    layers: list[dict[str, Any]],
    samples: list[str],
    settings: dict[str, Any],
    bounds: dict[str, Any],
) -> Iterator[Asked]:
    with tempfile.TemporaryDirectory(dir=Path(plain).parent) as folder:
        model = Switched(graph.load_light(Path(plain)), graph.load(Path(quantized)), layers)
        file = Path(folder) / "switched.onnx"
        graph.save_light(model.proto, Path(plain), file)
        yield Asked(model, core.open_session(file, core.as_written(settings)), samples, bounds)


def _plain(link: Link) -> dict[str, Any]:
    return {
        "name": link.layer.name,
        "operator": link.layer.operator,
        "share": link.layer.share,
        "saves": link.saves,
        "error": link.layer.alone.error,
        "strain": _finite(link.layer.alone.strain),
        "total_error": link.total.error,
        "total_strain": _finite(link.total.strain),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Asked:
    """The switched model's answers against its own with everything switched off."""

    def __init__(self, model: Switched, session: Any, samples: list[str], bounds: dict[str, Any]) -> None:
        self._model, self._session, self._bounds = model, session, bounds
        read = [read_sample(Path(file))["inputs"] for file in samples]
        self._feeds = [{model.renamed.get(name, name): value for name, value in feeds.items()} for feeds in read]
        self._reference = [self._answer(feeds, []) for feeds in self._feeds]

    def cost(self, names: list[str]) -> Cost:
        compared = core.Comparison()
        for feeds, reference in zip(self._feeds, self._reference, strict=True):
            compared.add(reference, self._answer(feeds, names))
        return cost_of(compared.outputs(self._bounds), self._bounds)

    def _answer(self, feeds: dict[str, Any], names: list[str]) -> dict[str, Array]:
        found: dict[str, Array] = core.run(self._session, feeds | {SWITCHES: self._model.switches(names)})
        return found


class Switched:
    """`proto` is `plain` with every value that `quantized` has in int8 behind a switch of its own.

    The 32 bits of a bias are not among them: what they lose is nothing beside the rest.
    """

    def __init__(self, plain: ModelProto, quantized: ModelProto, layers: list[dict[str, Any]]) -> None:
        self.proto, self.renamed = plain, dict[str, str]()
        self._stored = {tensor.name: tensor for tensor in quantized.graph.initializer}
        self._places: dict[str, int] = {}
        activations, weights = self._activations(quantized), self._weights(quantized, plain)
        self._touched = {
            layer["name"]: [value for value in values if value in activations or value in weights]
            for layer, values in zip(layers, _values_of(plain, layers), strict=True)
        }
        used = {value for values in self._touched.values() for value in values}
        self._insert(
            {name: activations[name] for name in activations if name in used},
            {name: weights[name] for name in weights if name in used},
        )
        self._stored.clear()  # and with it the quantized model

    def switches(self, names: list[str]) -> Array:
        flags = np.zeros(max(1, len(self._places)), np.bool_)
        flags[[self._places[value] for name in names for value in self._touched[name]]] = True
        return flags

    def _activations(self, quantized: ModelProto) -> dict[str, list[str]]:
        """Names of scale and zero point by the name that the value has in the float model."""
        return {
            node.input[0].removesuffix(OUTPUT_SUFFIX): list(node.input[1:3])
            for node in quantized.graph.node
            if node.op_type == "QuantizeLinear" and all(name in self._stored for name in node.input[1:3])
        }

    def _weights(self, quantized: ModelProto, plain: ModelProto) -> dict[str, NodeProto]:
        """What makes floats of the int8 of each weight."""
        makers = {node.output[0]: node for node in quantized.graph.node if node.op_type == "DequantizeLinear"}
        names = {node.name: node.input[1] for node in plain.graph.node if len(node.input) > 1}
        return {
            names[node.name]: makers[node.input[1]]
            for node in quantized.graph.node
            if len(node.input) > 1 and node.name in names and node.input[1] in makers
            if makers[node.input[1]].input[0] in self._stored
        }

    def _insert(self, activations: dict[str, list[str]], weights: dict[str, NodeProto]) -> None:
        """The float value gets another name, and what its switch gives takes its own: nothing else has to change."""
        body = self.proto.graph
        initializers = {tensor.name for tensor in body.initializer}
        inputs = [value for value in body.input if value.name not in initializers]
        nodes = [node for name in weights for node in self._weight_switch(name, weights[name])]
        for tensor in body.initializer:
            tensor.name = f"{tensor.name}~float" if tensor.name in weights else tensor.name
        for value in inputs:
            if value.name in activations:
                nodes += self._activation_switch(value.name, activations[value.name])
                self.renamed[value.name] = value.name = f"{value.name}~float"
        for node in body.node:
            nodes.append(node)
            for place, name in enumerate(node.output):
                if name in activations:
                    nodes += self._activation_switch(name, activations[name])
                    node.output[place] = f"{name}~float"
        kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        inputs = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in inputs]
        del body.node[:], body.input[:]
        body.node.extend(kept)
        body.input.extend(inputs)
        body.input.append(helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [max(1, len(self._places))]))

    def _weight_switch(self, name: str, maker: NodeProto) -> list[NodeProto]:
        """Only one of the two forms is made, when it is needed: a large model is not held twice."""
        narrow = NodeProto.FromString(maker.SerializeToString())
        del narrow.input[:], narrow.output[:]
        narrow.input.extend(self._kept(name, list(zip(maker.input, ("steps", "scale", "zero"), strict=False))))
        narrow.output.append(f"{name}~int8")
        wide = helper.make_node("Identity", [f"{name}~float"], [f"{name}~same"])
        return [
            *self._switch(name),
            helper.make_node(
                "If", [f"{name}~on"], [name], then_branch=_branch(narrow), else_branch=_branch(wide)
            ),
        ]  # fmt: skip

    def _activation_switch(self, name: str, about: list[str]) -> list[NodeProto]:
        kept = self._kept(name, list(zip(about, ("scale", "zero"), strict=True)))
        return [
            *self._switch(name),
            helper.make_node("QuantizeLinear", [f"{name}~float", *kept], [f"{name}~steps"]),
            helper.make_node("DequantizeLinear", [f"{name}~steps", *kept], [f"{name}~int8"]),
            helper.make_node("Where", [f"{name}~on", f"{name}~int8", f"{name}~float"], [name]),
        ]

    def _kept(self, name: str, tensors: list[tuple[str, str]]) -> list[str]:
        """Tensors of the quantized model, under names of their own."""
        for stored, kind in tensors:
            kept = self.proto.graph.initializer.add()
            kept.CopyFrom(self._stored[stored])
            kept.name = f"{name}~{kind}"
        return [f"{name}~{kind}" for _, kind in tensors]

    def _switch(self, name: str) -> Iterator[NodeProto]:
        place = self._places.setdefault(name, len(self._places))
        self.proto.graph.initializer.append(numpy_helper.from_array(np.array(place, np.int64), f"{name}~place"))
        yield helper.make_node("Gather", [SWITCHES, f"{name}~place"], [f"{name}~on"])


def _branch(node: NodeProto) -> GraphProto:
    return helper.make_graph([node], "branch", [], [onnx.ValueInfoProto(name=node.output[0])])


def _values_of(model: ModelProto, layers: list[dict[str, Any]]) -> Iterator[list[str]]:
    """What becomes int8 with a layer: what goes in, its weight, and behind a Conv what comes out."""
    nodes = {node.name: node for node in model.graph.node}
    for layer in layers:
        node = nodes[layer["name"]]
        behind = [node.output[0]] if node.op_type == "Conv" else []
        yield [*node.input[:2], *behind, *(nodes[name].output[0] for name in layer["carries"])]
