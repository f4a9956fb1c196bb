"""Damaged and hostile model files, the same for the same seed: `plan` says which, `Case.write` makes one.

A maker gets the bytes of a good model and a folder of its own, and returns a note on what it did. What a file may
point to outside that folder is in `Outside`; nothing may read, change or hang on it.
"""

from __future__ import annotations

import io
import os
import pickle
import random
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

NAME = "model.onnx"
CANARY, PIPE = "canary.bin", "pipe"
CANARY_BYTES = 1 << 20
HUGE = (2**31, 2**31 - 1, 2**40, 2**62, 2**63 - 1)


@dataclass(frozen=True)
class Outside:
    """Where the traps lie: `place` holds a canary and a pipe, and the folders of the cases two levels below."""

    place: Path

    @property
    def canary(self) -> Path:
        return self.place / CANARY

    @property
    def pipe(self) -> Path:
        return self.place / PIPE


@dataclass(frozen=True)
class Scene:
    content: bytes
    folder: Path
    outside: Outside
    rng: random.Random

    def keep(self, content: bytes | ModelProto) -> None:
        data = content.SerializeToString() if isinstance(content, ModelProto) else content
        (self.folder / NAME).write_bytes(data)

    def model(self) -> ModelProto:
        return onnx.load_from_string(self.content)


Make = Callable[[Scene], str]
MAKERS: dict[str, Make] = {}
SLOW: set[str] = set()  # these run into a limit, so there are few of them


def damage(name: str, *, slow: bool = False) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        MAKERS[name] = make
        SLOW.update({name} if slow else ())
        return make

    return register


@dataclass(frozen=True)
class Case:
    number: int
    kind: str
    model: Path
    seed: int

    def write(self, folder: Path, outside: Outside) -> str:
        """Makes the damaged file in `folder`, and says what is wrong with it."""
        rng = random.Random(f"{self.seed}/{self.kind}/{self.number}")
        return MAKERS[self.kind](Scene(self.model.read_bytes(), folder, outside, rng))


def plan(count: int, seed: int, models: Sequence[Path]) -> list[Case]:
    """Every kind as often as any other, but for the slow ones; every kind at least once; models in turn."""
    slow = max(1, count // 200)
    quick = [kind for kind in MAKERS if kind not in SLOW]
    each, more = divmod(max(0, count - slow * len(SLOW)), len(quick))
    amounts = {kind: slow if kind in SLOW else max(1, each + (quick.index(kind) < more)) for kind in MAKERS}
    kinds = [(kind, turn) for kind, amount in amounts.items() for turn in range(amount)]
    random.Random(seed).shuffle(kinds)
    chosen = [(kind, models[(turn + list(MAKERS).index(kind)) % len(models)]) for kind, turn in kinds]
    return [Case(number, kind, model, seed) for number, (kind, model) in enumerate(chosen)]


# -- the file as bytes


@damage("bit flips")
def _(scene: Scene) -> str:
    content, count = bytearray(scene.content), scene.rng.choice((1, 1, 2, 4, 8, 16, 64))
    # half of them near the ends, where names, types and shapes are: in between are mostly weights
    reach = len(content) if scene.rng.random() < 0.5 else min(len(content), 1500)
    for _ in range(count):
        position = scene.rng.randrange(reach)
        content[position if scene.rng.random() < 0.5 else -1 - position] ^= 1 << scene.rng.randrange(8)
    scene.keep(bytes(content))
    return f"{count} bits"


@damage("zeroed range")
def _(scene: Scene) -> str:
    start, content = scene.rng.randrange(len(scene.content)), bytearray(scene.content)
    end = min(len(content), start + scene.rng.choice((1, 4, 16, 256, 4096)))
    content[start:end] = bytes(end - start)
    scene.keep(bytes(content))
    return f"bytes {start} to {end}"


@damage("truncated")
def _(scene: Scene) -> str:
    end = scene.rng.choice((1, 2, 63, 64, scene.rng.randrange(len(scene.content)), len(scene.content) - 1))
    scene.keep(scene.content[:end])
    return f"after {end} bytes"


@damage("garbage appended")
def _(scene: Scene) -> str:
    more = scene.rng.choice((scene.rng.randbytes(scene.rng.choice((1, 7, 100, 5000))), bytes(50), scene.content))
    scene.keep(scene.content + more)
    return f"{len(more)} bytes"


@damage("sections swapped")
def _(scene: Scene) -> str:
    a, b, c, d = sorted(scene.rng.randrange(len(scene.content) + 1) for _ in range(4))
    content = scene.content
    scene.keep(content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:])
    return f"{a}-{b} with {c}-{d}"


# -- stored tensors


@damage("tensor dims huge")
def _(scene: Scene) -> str:
    model = scene.model()
    tensor, size = _tensor(model, scene.rng), scene.rng.choice(HUGE)
    if scene.rng.random() < 0.3:
        tensor.dims.extend([size] * scene.rng.choice((1, 2, 8)))
    elif tensor.dims:
        tensor.dims[scene.rng.randrange(len(tensor.dims))] = size
    else:
        tensor.dims.append(size)
    scene.keep(model)
    return f"{tensor.name!r} is {list(tensor.dims)}"


@damage("tensor dims negative")
def _(scene: Scene) -> str:
    model = scene.model()
    tensor = _tensor(model, scene.rng)
    size = scene.rng.choice((-1, -(2**31), -(2**63), 0, *(-dim for dim in tensor.dims)))
    if tensor.dims:
        tensor.dims[scene.rng.randrange(len(tensor.dims))] = size
    else:
        tensor.dims.append(size)
    scene.keep(model)
    return f"{tensor.name!r} is {list(tensor.dims)}"


@damage("tensor data length")
def _(scene: Scene) -> str:
    model = scene.model()
    tensor = _tensor(model, scene.rng)
    change = scene.rng.choice(("empty", "shorter", "longer", "two fields", "many dims"))
    if change == "two fields":
        tensor.float_data.extend([1.0] * 3)
    elif change == "many dims":
        tensor.dims.extend([1] * scene.rng.choice((60, 1000, 100_000)))
    else:
        tensor.raw_data = {"empty": b"", "shorter": tensor.raw_data[:-1], "longer": tensor.raw_data * 2}[change]
    scene.keep(model)
    return f"{tensor.name!r}: {change}"


@damage("tensor dtype")
def _(scene: Scene) -> str:
    model = scene.model()
    tensor = _tensor(model, scene.rng)
    tensor.data_type = scene.rng.choice((0, 6, 7, 8, 9, 10, 11, 14, 16, 17, 21, 22, 23, 24, 99, -1, 2**31 - 1))
    scene.keep(model)
    return f"{tensor.name!r} is of type {tensor.data_type}"


@damage("sparse tensor")
def _(scene: Scene) -> str:
    model = scene.model()
    tensor = _tensor(model, scene.rng, initializer=True)
    dims, name = list(tensor.dims), tensor.name
    wild = scene.rng.choice(([-1], [2**62], [2**31], [-(2**63)], [5, 5, 1], [0], []))
    values = numpy_helper.from_array(np.ones(len(wild), np.float32), name)
    if scene.rng.random() < 0.3:
        values.dims[:] = [2**40]
    indices = numpy_helper.from_array(np.array(wild, np.int64).reshape(scene.rng.choice(((-1,), (-1, 1)))))
    shape = scene.rng.choice((dims, [2**31], [2**20, 2**20], [-1], []))
    sparse = helper.make_sparse_tensor(values, indices, shape)
    if scene.rng.random() < 0.3:
        constant = helper.make_node("Constant", [], [f"{name}_sparse"], sparse_value=sparse)
        model.graph.node.insert(0, constant)
        _output(model, f"{name}_sparse", TensorProto.FLOAT)
    else:
        for found in [item for item in model.graph.initializer if item.name == name]:
            model.graph.initializer.remove(found)
        model.graph.sparse_initializer.append(sparse)
    scene.keep(model)
    return f"{name!r}: indices {wild} in {shape}"


@damage("strings not text")
def _(scene: Scene) -> str:
    model = scene.model()
    words = [b"\xff\xfe", b"a\x00b", "é".encode("latin-1"), b"\xed\xa0\x80", b""]
    tensor = TensorProto(name="words", data_type=TensorProto.STRING, dims=[len(words)], string_data=words)
    if scene.rng.random() < 0.2:
        tensor.raw_data = b"\xff" * 40
    model.graph.initializer.append(tensor)
    name = scene.rng.choice(("words", "copy", "lower"))
    if name == "copy":
        model.graph.node.append(helper.make_node("Identity", ["words"], ["copy"]))
    elif name == "lower":
        model.graph.node.append(helper.make_node("StringNormalizer", ["words"], ["lower"], case_change_action="LOWER"))
    _output(model, name, TensorProto.STRING)
    scene.keep(model)
    return f"output {name}"


# -- inputs, outputs and names


@damage("input dims huge")
def _(scene: Scene) -> str:
    model = scene.model()
    shape = scene.rng.choice(model.graph.input).type.tensor_type.shape
    sizes = [scene.rng.choice(HUGE) for _ in range(scene.rng.choice((1, 1, 2, 6)))]
    for size in sizes:
        (scene.rng.choice(shape.dim) if shape.dim and scene.rng.random() < 0.8 else shape.dim.add()).dim_value = size
    scene.keep(model)
    return str(sizes)


@damage("input dims zero or negative")
def _(scene: Scene) -> str:
    model = scene.model()
    shape = scene.rng.choice(model.graph.input).type.tensor_type.shape
    size = scene.rng.choice((0, 0, -1, -2, -(2**31), -(2**63)))
    (scene.rng.choice(shape.dim) if shape.dim else shape.dim.add()).dim_value = size
    scene.keep(model)
    return str(size)


@damage("input type")
def _(scene: Scene) -> str:
    model = scene.model()
    value = scene.rng.choice(model.graph.input)
    change = scene.rng.choice(("none", "element", "no shape", "sequence", "map", "optional", "sparse", "gone", "twice"))
    if change == "element":
        value.type.tensor_type.elem_type = scene.rng.choice((0, 2, 8, 9, 10, 14, 16, 17, 22, 23, 99, -5))
    elif change == "no shape":
        value.type.tensor_type.ClearField("shape")
    elif change in ("gone", "twice"):
        model.graph.input.remove(value) if change == "gone" else model.graph.input.append(value)
    else:
        value.ClearField("type")
        if change == "sequence":
            value.type.sequence_type.elem_type.map_type.key_type = TensorProto.STRING
        elif change == "map":
            value.type.map_type.key_type = 77
        elif change == "optional":
            value.type.optional_type.elem_type.optional_type.SetInParent()
        elif change == "sparse":
            value.type.sparse_tensor_type.elem_type = TensorProto.FLOAT
    scene.keep(model)
    return change


@damage("output missing")
def _(scene: Scene) -> str:
    model = scene.model()
    value = scene.rng.choice(model.graph.output)
    change = scene.rng.choice(("renamed", "renamed", "no name", "twice", "is an input", "all gone", "no type", "map"))
    if change == "twice":
        model.graph.output.append(value)
    elif change == "all gone":
        del model.graph.output[:]
    elif change == "no type":
        value.ClearField("type")
    elif change == "map":
        value.ClearField("type")
        value.type.map_type.key_type = TensorProto.INT64
    else:
        value.name = {"renamed": "nowhere", "no name": "", "is an input": model.graph.input[0].name}[change]
    scene.keep(model)
    return change


@damage("long names")
def _(scene: Scene) -> str:
    model, length = scene.model(), scene.rng.choice((300, 5000, 70_000, 1_000_000, 8_000_000))
    what = scene.rng.choice(("input", "output", "node", "tensor", "dimension", "domain", "producer"))
    text = scene.rng.choice(("n", "é", "/", "'", "%s")) * length
    if what == "dimension":
        shape = model.graph.input[0].type.tensor_type.shape
        (shape.dim[0] if shape.dim else shape.dim.add()).dim_param = text
    elif what == "domain":
        model.opset_import.add(domain=text, version=1)
    elif what == "producer":
        model.producer_name = text
    elif what == "node":
        model.graph.node[0].name = text
    else:
        values = {"input": model.graph.input, "output": model.graph.output, "tensor": [_tensor(model, scene.rng)]}
        _rename(model, values[what][0].name, text)
    scene.keep(model)
    return f"{what}, {length} characters"


@damage("strange names")
def _(scene: Scene) -> str:
    model = scene.model()
    text = scene.rng.choice(
        ("../../canary.bin", "/etc/passwd", "a/b", "a\x00b", "a\nb", ".", "", " ", "\u202eabc", "inputs", "é" * 3,
         "a'b", "00000/inputs/x", "\x1b[31m", "{name}", "%s", "x.npy", "a\\b", "::error::", "---", "0")
    )  # fmt: skip
    values = [*model.graph.input, *model.graph.output]
    _rename(model, scene.rng.choice(values).name, text)
    scene.keep(model)
    return repr(text)


@damage("names not UTF-8")
def _(scene: Scene) -> str:
    model, mark = scene.model(), "QZQZQZQZ"
    what = scene.rng.choice(
        ("input", "output", "node", "operator", "tensor", "graph", "dimension", "doc", "metadata", "producer",
         "attribute", "location", "function", "string", "model domain", "value")
    )  # fmt: skip
    node = scene.rng.choice(model.graph.node)
    if what in ("input", "output"):
        _rename(model, getattr(model.graph, what)[0].name, mark)
    elif what == "tensor":
        _rename(model, _tensor(model, scene.rng).name, mark)
    elif what == "dimension":
        model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = mark
    elif what == "metadata":
        model.metadata_props.add(key=mark, value=mark)
    elif what == "attribute":
        node.attribute.add(name=mark, type=AttributeProto.INT, i=1)
    elif what == "string":
        node.attribute.add(name="note", type=AttributeProto.STRING, s=mark.encode())
    elif what == "location":
        _external(model, scene, mark)
    elif what == "function":
        model.functions.append(helper.make_function("own", mark, ["a"], ["b"], [], [helper.make_opsetid("", 18)]))
    elif what == "value":
        model.graph.value_info.add(name="v", doc_string=mark)
    else:
        place, field = {
            "node": (node, "name"), "operator": (node, "op_type"), "graph": (model.graph, "name"),
            "doc": (model.graph, "doc_string"), "producer": (model, "producer_name"), "model domain": (model, "domain"),
        }[what]  # fmt: skip
        setattr(place, field, mark)
    bad = scene.rng.choice((b"\xff" * 8, b"abc\xed\xa0\x80de", b"\xc3(abcdef", b"\x80QZQZQZQ"))
    scene.keep(model.SerializeToString().replace(mark.encode(), bad))
    return f"{what}: {bad!r}"


# -- the graph


@damage("cyclic graph")
def _(scene: Scene) -> str:
    model = scene.model()
    nodes = [node for node in model.graph.node if node.input and node.output]
    node = scene.rng.choice(nodes)
    later = scene.rng.choice(nodes[nodes.index(node) :])
    node.input[scene.rng.randrange(len(node.input))] = later.output[0]
    scene.keep(model)
    return f"{node.op_type} takes the output of {later.op_type}"


@damage("duplicate outputs")
def _(scene: Scene) -> str:
    model = scene.model()
    node, other = scene.rng.choice(model.graph.node), scene.rng.choice(model.graph.node)
    name = scene.rng.choice((other.output[0], model.graph.input[0].name, _tensor(model, scene.rng).name, ""))
    if scene.rng.random() < 0.5:
        node.output[0] = name
    else:
        node.output.append(name)
    scene.keep(model)
    return f"{node.op_type} also gives {name!r}"


@damage("nodes in disorder")
def _(scene: Scene) -> str:
    model = scene.model()
    change = scene.rng.choice(("shuffled", "doubled", "dropped", "inputs turned", "inputs gone", "too many inputs"))
    nodes, node = list(model.graph.node), scene.rng.choice(model.graph.node)
    if change == "inputs turned":
        node.input[:] = list(node.input)[::-1]
    elif change == "inputs gone":
        node.input[:] = list(node.input)[: scene.rng.randrange(max(1, len(node.input)))]
    elif change == "too many inputs":
        node.input.extend([node.input[0] if node.input else ""] * scene.rng.choice((1, 10, 5000)))
    else:
        if change == "shuffled":
            scene.rng.shuffle(nodes)
        kept = {"shuffled": nodes, "doubled": nodes * 2, "dropped": [item for item in nodes if item is not node]}[
            change
        ]
        copies = [NodeProto.FromString(item.SerializeToString()) for item in kept]
        del model.graph.node[:]
        model.graph.node.extend(copies)
    scene.keep(model)
    return change


@damage("operator")
def _(scene: Scene) -> str:
    model = scene.model()
    node = scene.rng.choice(list(_nodes(model)))
    node.op_type = scene.rng.choice(
        ("", "", "NoSuchThing", "If", "Loop", "Scan", "Constant", "EPContext", "Cast", "OneHot", "Split", "Equal")
    )
    scene.keep(model)
    return f"{node.op_type!r}"


@damage("domain")
def _(scene: Scene) -> str:
    model = scene.model()
    domain = scene.rng.choice(("no.such.domain", "com.microsoft", "ai.onnx.ml", "ai.onnx.training", "../..", " ", "\n"))
    scene.rng.choice(list(_nodes(model))).domain = domain
    if scene.rng.random() < 0.5:
        model.opset_import.add(domain=domain, version=scene.rng.choice((0, 1, 2**40)))
    scene.keep(model)
    return repr(domain)


@damage("opset")
def _(scene: Scene) -> str:
    model = scene.model()
    change = scene.rng.choice((0, 1, 5, 999, -1, 2**31, 2**62, "missing", "twice", "no version"))
    if change == "missing":
        del model.opset_import[:]
    elif change == "twice":
        model.opset_import.add(domain="", version=scene.rng.choice((1, 7, 21)))
    elif change == "no version":
        model.opset_import[0].ClearField("version")
    else:
        model.opset_import[0].version = int(change)
    scene.keep(model)
    return str(change)


@damage("IR version")
def _(scene: Scene) -> str:
    model = scene.model()
    model.ir_version = scene.rng.choice((0, 1, 2, 3, 13, 999, -1, 2**31, 2**62, -(2**63)))
    scene.keep(model)
    return str(model.ir_version)


@damage("attributes")
def _(scene: Scene) -> str:
    model = scene.model()
    owners = [node for node in _nodes(model) if node.attribute]
    node = scene.rng.choice(owners or list(model.graph.node))
    change = scene.rng.choice(("none", "kind", "number", "reference", "twice", "foreign", "undefined", "long list"))
    attribute = scene.rng.choice(node.attribute) if node.attribute else node.attribute.add(name="axis", type=2)
    if change == "none":
        del node.attribute[:]
    elif change == "kind":
        attribute.type = scene.rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))
    elif change == "undefined":
        attribute.ClearField("type")
    elif change == "number":
        attribute.i = scene.rng.choice(HUGE)
        attribute.ints[:] = [scene.rng.choice((-1, 0, *HUGE)) for _ in range(max(1, len(attribute.ints)))]
    elif change == "reference":
        attribute.ref_attr_name = "nowhere"
    elif change == "twice":
        node.attribute.append(attribute)
    elif change == "foreign":
        node.attribute.add(name="foreign", type=AttributeProto.TENSOR)
    else:
        attribute.ints.extend([1] * 1_000_000)
    scene.keep(model)
    return f"{node.op_type}.{attribute.name}: {change}"


@damage("value info")
def _(scene: Scene) -> str:
    model = scene.model()
    name = scene.rng.choice(scene.rng.choice(model.graph.node).output or ["none"])
    dtype = scene.rng.choice((TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING))
    shape = scene.rng.choice(([2**62], [0], [-1], [3, 3], [], ["batch", 7], [2**31, 2**31, 2**31]))
    model.graph.value_info.append(helper.make_tensor_value_info(name, dtype, shape))
    if scene.rng.random() < 0.5:
        model.graph.output[0].type.CopyFrom(model.graph.value_info[-1].type)
    scene.keep(model)
    return f"{name!r} is {shape}"


@damage("functions")
def _(scene: Scene) -> str:
    """Functions that call themselves or one another, or are called without being there."""
    model = scene.model()
    change = scene.rng.choice(("itself", "each other", "doubling", "twice", "no body", "cyclic body"))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]

    def function(name: str, *calls: str) -> None:
        inner = [helper.make_node(call, [f"v{i}"], [f"v{i + 1}"], domain="own") for i, call in enumerate(calls)]
        if change == "cyclic body":
            inner = [helper.make_node("Add", ["v0", "v1"], ["v1"])]
        last = f"v{len(calls) or 1}"
        model.functions.append(helper.make_function("own", name, ["v0"], [last], inner, opsets))

    names = {"itself": [("F0", "F0")], "each other": [("F0", "F1"), ("F1", "F0")], "twice": [("F0", "F1")] * 2}
    # each level calls the next twice: written out, the graph has 2**40 nodes
    names["doubling"] = [(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(40)]
    for name, *calls in names.get(change, [("F0",)]):
        function(name, *calls)
    model.graph.node.append(helper.make_node("F0", [model.graph.input[0].name], ["own_out"], domain="own"))
    model.opset_import.add(domain="own", version=1)
    _output(model, "own_out", model.graph.input[0].type.tensor_type.elem_type)
    scene.keep(model)
    return change


@damage("nested If")
def _(scene: Scene) -> str:
    """Written by hand: the library refuses to write what is nested more than about thirty times."""
    levels = scene.rng.choice((5, 20, 31, 32, 33, 34, 50, 100, 500, 1000, 2000))
    inner = _leaf_bytes("leaf")
    for level in range(levels):
        branches = {b"then_branch": inner, b"else_branch": _leaf_bytes(f"e{level}")}
        attributes = [_field(5, _field(1, key) + _field(6, graph) + b"\xa0\x01\x05") for key, graph in branches.items()]
        inner = _graph_bytes(_node_bytes("If", ["deep_flag"], [f"o{level}"], *attributes), f"o{level}")
    flag = numpy_helper.from_array(np.array(scene.rng.random() < 0.5), "deep_flag").SerializeToString()
    scene.keep(scene.content + _field(7, _field(5, flag) + _field(1, _first_node(inner))))
    return f"{levels} levels"


@damage("nested attributes and types")
def _(scene: Scene) -> str:
    levels = scene.rng.choice((5, 20, 45, 49, 50, 51, 100, 500, 2000, 20_000))
    what = scene.rng.choice(("graphs", "sequence input", "type attribute", "unknown field"))
    if what == "graphs":
        inner = b""
        for level in range(levels):
            inner = _node_bytes("Identity", [], [f"n{level}"], _field(5, b"\x0a\x01g\xa0\x01\x0a" + _field(11, inner)))
            inner = _field(1, inner)
        more = inner
    elif what == "unknown field":
        inner = b""
        for _ in range(levels):
            inner = _field(999, inner)
        more = inner
    else:
        kind = b"\x0a\x02\x08\x01"  # a tensor of floats
        for _ in range(levels):
            kind = _field(4, _field(1, kind))
        value = _field(11, _field(1, b"deep") + _field(2, kind))
        node = _node_bytes("Identity", [], ["n"], _field(5, b"\x0a\x01t\xa0\x01\x0d" + _field(14, kind)))
        more = value if what == "sequence input" else _field(1, node)
    scene.keep(scene.content + _field(7, more))
    return f"{what}, {levels} levels"


@damage("petabytes")
def _(scene: Scene) -> str:
    """A few bytes that ask for more memory than there is."""
    model, rng = scene.model(), scene.rng
    size = rng.choice((2**33, 2**40, 2**50, 2**62))
    what = rng.choice(("ConstantOfShape", "Expand", "Tile", "Range", "Pad", "Reshape", "Resize", "OneHot", "Eye"))
    ints = {"size": [size], "start": [0, 0], "one": [1], "square": [2**20, size // 2**20]}
    for name, values in ints.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), f"big_{name}"))
    for name, number in (("zero", 0), ("scalar", size), ("step", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(number, np.int64), f"big_{name}"))
    scales = np.array([float(size)], np.float32)
    model.graph.initializer.append(numpy_helper.from_array(scales, "big_scales"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, size], np.int64), "big_pads"))
    node = {
        "ConstantOfShape": ("ConstantOfShape", ["big_size"]),
        "Expand": ("Expand", ["big_one", "big_size"]),
        "Tile": ("Tile", ["big_one", "big_size"]),
        "Range": ("Range", ["big_zero", "big_scalar", "big_step"]),
        "Pad": ("Pad", ["big_one", "big_pads"]),
        "Reshape": ("Reshape", ["big_one", "big_square"]),
        "Resize": ("Resize", ["big_one", "", "big_scales"]),
        "OneHot": ("OneHot", ["big_one", "big_scalar", "big_start"]),
        "Eye": ("ConstantOfShape", ["big_square"]),
    }[what]
    model.graph.node.append(helper.make_node(node[0], node[1], ["big"]))
    if what in ("ConstantOfShape", "Eye") and rng.random() < 0.5:
        fill = numpy_helper.from_array(np.array([1], np.int64))
        model.graph.node[-1].attribute.append(helper.make_attribute("value", fill))
    if rng.random() < 0.5:  # all that is wanted is one number
        model.graph.node.append(helper.make_node("ReduceMax", ["big"], ["most"], keepdims=0))
        _output(model, "most", TensorProto.INT64)
    else:
        _output(model, "big", TensorProto.FLOAT if node[0] == "ConstantOfShape" else TensorProto.INT64)
    scene.keep(model)
    return f"{what} of {size}"


@damage("endless loop", slow=True)
def _(scene: Scene) -> str:
    model = scene.model()
    flag, flags = TensorProto.BOOL, [[], []]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_in"], ["go_out"]), helper.make_node("Add", ["sum_in", "turn"], ["sum_out"])],
        "body",
        [helper.make_tensor_value_info("turn", TensorProto.INT64, []),
         helper.make_tensor_value_info("go_in", flag, flags[0]),
         helper.make_tensor_value_info("sum_in", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("go_out", flag, flags[1]),
         helper.make_tensor_value_info("sum_out", TensorProto.INT64, [])],
    )  # fmt: skip
    stored = {"trips": np.array(2**62), "go": np.array(True), "sum": np.array(0)}
    for name, array in stored.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.node.append(helper.make_node("Loop", ["trips", "go", "sum"], ["endless"], body=body))
    _output(model, "endless", TensorProto.INT64)
    scene.keep(model)
    return "2**62 turns"


# -- external data


def _external_kind(name: str, make: Callable[[Scene, ModelProto], str]) -> None:
    def whole(scene: Scene) -> str:
        model = scene.model()
        note = make(scene, model)
        scene.keep(model)
        return note

    damage(name)(whole)


def _parent(scene: Scene, model: ModelProto) -> str:
    ups = scene.rng.choice((2, 2, 3, 4, 5, 6, 7, 8))
    way = scene.rng.choice(("../", "..\\", ".././", "sub/../../", "./../", "..//"))
    location = way * ups + CANARY
    (scene.folder / "sub").mkdir()
    _external(model, scene, location)
    return repr(location)


def _absolute(scene: Scene, model: ModelProto) -> str:
    path = scene.rng.choice((str(scene.outside.canary), str(scene.outside.canary.parent), "/dev/zero", "/etc/passwd"))
    location = scene.rng.choice(("", "", "/", "file://", "//")) + path
    _external(model, scene, location)
    return repr(location)


def _link(scene: Scene, model: ModelProto) -> str:
    link, outside = scene.folder / "weights.bin", scene.outside
    change = scene.rng.choice(("file", "relative", "chain", "folder", "itself", "nowhere", "device", "inside"))
    location = "weights.bin"
    if change == "chain":
        (scene.folder / "step").symlink_to(outside.canary)
    if change == "folder":
        (scene.folder / "weights").symlink_to(outside.place)
        location = f"weights/{CANARY}"
    else:
        target = {"file": outside.canary, "relative": f"../../{CANARY}", "chain": "step", "itself": "weights.bin",
                  "nowhere": "gone", "device": "/dev/zero", "inside": NAME}[change]  # fmt: skip
        link.symlink_to(target)
    _external(model, scene, location)
    return f"{change}: {location}"


def _folder(scene: Scene, model: ModelProto) -> str:
    (scene.folder / "sub").mkdir()
    location = scene.rng.choice((".", "sub", "sub/", "./", "sub/.", "artifacts", "artifacts/.work", ""))
    _external(model, scene, location)
    return repr(location)


def _pipe(scene: Scene, model: ModelProto) -> str:
    location = scene.rng.choice(("own", "link", f"../../{PIPE}", str(scene.outside.pipe)))
    if location == "own":
        os.mkfifo(scene.folder / "own")
    elif location == "link":
        (scene.folder / "link").symlink_to(scene.outside.pipe)
    _external(model, scene, location)
    return repr(location)


def _itself(scene: Scene, model: ModelProto) -> str:
    location = scene.rng.choice((NAME, f"./{NAME}", f"sub/../{NAME}", NAME.upper()))
    note = _external(model, scene, location, offset=scene.rng.choice((0, 1, 7)))
    return f"{location!r} {note}"


def _entries(scene: Scene, model: ModelProto) -> str:
    (scene.folder / "weights.bin").write_bytes(bytes(4096))
    wild = ("-1", str(-(2**63)), str(2**31), str(2**62), str(2**70), "4095", "4097", "1e3", "abc", "", " 4", "1_0",
            "٣", "0x10", "9" * 5000, "nan", "+0", "0.0")  # fmt: skip
    entries = {
        key: scene.rng.choice(wild) for key in scene.rng.choice((("offset",), ("length",), ("offset", "length")))
    }
    _external(model, scene, "weights.bin", **entries)
    return " ".join(f"{key}={value[:20]!r}" for key, value in entries.items())


def _absent(scene: Scene, model: ModelProto) -> str:
    location = scene.rng.choice(("gone.bin", "gone/gone.bin", f"{NAME}.data", f"{NAME}/x", "a" * 255, "a" * 256))
    if scene.rng.random() < 0.3:
        (scene.folder / f"{NAME}.data").write_bytes(b"")
    tensor = _external(model, scene, location)
    return f"{location[:20]!r} {tensor}"


def _odd_location(scene: Scene, model: ModelProto) -> str:
    location = scene.rng.choice(
        ("weights\0.bin", f"{NAME}\0../../{CANARY}", "%2e%2e/%2e%2e/" + CANARY, "..%5c..%5c" + CANARY, "~/x", "$HOME/x",
         "sub\\weights.bin", "C:\\x", "\\\\host\\share", "%s%n", "x" * 100_000, "a/" * 5000 + "b", "w\n.bin", " ", "*",
         "http://127.0.0.1:9/x", "NUL", "-", "\ud7ff", "weights.bin/", f"{NAME}/../../../{CANARY}")
    )  # fmt: skip
    (scene.folder / "weights.bin").write_bytes(bytes(CANARY_BYTES))
    if scene.rng.random() < 0.3 and "\0" not in location and "/" not in location and len(location) < 200:
        (scene.folder / location).write_bytes(bytes(CANARY_BYTES))  # a file may really be called so
    _external(model, scene, location)
    return repr(location[:40])


def _hidden(scene: Scene, model: ModelProto) -> str:
    """The same tricks where fewer look: in functions, inner graphs, training, and attributes of a wrong type."""
    where = scene.rng.choice(("function", "inner", "training", "mistyped", "sparse", "tensors", "unused", "inline too"))
    ups = scene.rng.choice((2, 6))
    location = scene.rng.choice(("../" * ups + CANARY, str(scene.outside.canary), "link", "../" * ups + PIPE))
    if location == "link":
        (scene.folder / "link").symlink_to(scene.outside.canary)
    tensor = numpy_helper.from_array(np.zeros(16, np.float32), "hidden")
    if where != "inline too":
        tensor.ClearField("raw_data")
    _point(tensor, location, offset=0, length=64)
    constant = helper.make_node("Constant", [], ["hidden_out"])
    constant.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    if where == "function":
        opsets = [helper.make_opsetid("", 18)]
        model.functions.append(helper.make_function("own", "Hidden", [], ["hidden_out"], [constant], opsets))
        model.opset_import.add(domain="own", version=1)
        model.graph.node.append(helper.make_node("Hidden", [], ["hidden_out"], domain="own"))
    elif where == "inner":
        value = helper.make_tensor_value_info("hidden_out", TensorProto.FLOAT, [16])
        branch = helper.make_graph([constant], "branch", [], [value])
        model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
        model.graph.node.append(helper.make_node("If", ["yes"], ["hidden_if"], then_branch=branch, else_branch=branch))
    elif where == "training":
        model.training_info.add().initialization.initializer.append(tensor)
    elif where == "sparse":
        indices = numpy_helper.from_array(np.arange(16), "at")
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(tensor, indices, [16]))
    elif where in ("unused", "inline too"):
        model.graph.initializer.append(tensor)
    else:
        attribute = constant.attribute[0]
        attribute.type = AttributeProto.FLOAT if where == "mistyped" else AttributeProto.TENSORS
        if where == "tensors":
            attribute.tensors.append(tensor)
        model.graph.node.append(constant)
    if where in ("function", "mistyped", "tensors", "sparse", "unused"):
        _output(model, "hidden" if where in ("sparse", "unused") else "hidden_out", TensorProto.FLOAT)
    return f"{where}: {location!r}"


for _name, _make in (
    ("external: parent folder", _parent),
    ("external: absolute", _absolute),
    ("external: link", _link),
    ("external: folder", _folder),
    ("external: pipe", _pipe),
    ("external: the model itself", _itself),
    ("external: offset, length", _entries),
    ("external: missing", _absent),
    ("external: odd location", _odd_location),
    ("external: hidden", _hidden),
):
    _external_kind(_name, _make)


# -- other files in the model's place


@damage("another file")
def _(scene: Scene) -> str:
    path, archive = scene.folder / NAME, io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("../../escaped.txt", "x")
        writer.writestr("data.pkl", pickle.dumps([1]))
    evil = b"cos\nsystem\n(S'touch escaped'\ntR."
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    contents = {
        "zip": archive.getvalue(), "pickle": pickle.dumps({"a": 1}), "code": evil, "empty": b"", "lfs": lfs,
        "text": b"ir_version: 8\ngraph {}\n" * 9, "zeros": bytes(512), "png": b"\x89PNG\r\n\x1a\n" + bytes(90),
    }  # fmt: skip
    change = scene.rng.choice((*contents, "folder", "link to a folder", "link to nowhere", "circle", "pipe", "device"))
    if change in contents:
        path.write_bytes(contents[change])
    elif change == "folder":
        path.mkdir()
    elif change == "pipe":
        os.mkfifo(path)
    else:
        targets = {"link to a folder": "../..", "link to nowhere": "gone", "circle": NAME, "device": "/dev/zero"}
        path.symlink_to(targets[change])
    return change


@damage("a huge file", slow=True)
def _(scene: Scene) -> str:
    """Mostly holes: 3 GiB that take no place on the disk."""
    size = scene.rng.choice((3 << 30, (2 << 30) - 1))
    scene.keep(scene.content)
    os.truncate(scene.folder / NAME, size)
    return f"{size} bytes"


# -- shared by the makers


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    return (node for graph in _graphs(model) for node in graph.node)


def _tensor(model: ModelProto, rng: random.Random, *, initializer: bool = False) -> TensorProto:
    """Any stored tensor, as raw bytes; models keep their weights in many places."""
    found = [tensor for graph in _graphs(model) for tensor in graph.initializer]
    if not initializer or not found:
        found += [item.t for node in _nodes(model) for item in node.attribute if item.HasField("t")]
    tensor = rng.choice(found)
    if tensor.data_type != TensorProto.STRING and not tensor.HasField("raw_data"):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    return tensor


def _external(model: ModelProto, scene: Scene, location: str, **entries: Any) -> str:
    """Move a tensor out to where `location` points; by default the entries fit its size."""
    tensor = _tensor(model, scene.rng)
    while len(tensor.raw_data) > CANARY_BYTES:
        tensor = _tensor(model, scene.rng)
    length = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    _point(tensor, location, **({"offset": 0, "length": length} | entries))
    return repr(tensor.name)


def _point(tensor: TensorProto, location: str, **entries: Any) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": location} | entries).items():
        tensor.external_data.add(key=key, value=str(value))


def _output(model: ModelProto, name: str, dtype: int) -> None:
    model.graph.output.append(helper.make_tensor_value_info(name, dtype, None))


def _rename(model: ModelProto, before: str, after: str) -> None:
    """Wherever the name is used, so that the model stays whole."""
    for graph in _graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = after if value.name == before else value.name
        for node in graph.node:
            node.input[:] = [after if name == before else name for name in node.input]
            node.output[:] = [after if name == before else name for name in node.output]


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, payload: bytes) -> bytes:
    """One field of a protobuf message that holds bytes, text or another message."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _node_bytes(kind: str, inputs: Sequence[str], outputs: Sequence[str], *attributes: bytes) -> bytes:
    names = [_field(1, name.encode()) for name in inputs] + [_field(2, name.encode()) for name in outputs]
    return b"".join(names) + _field(4, kind.encode()) + b"".join(attributes)


def _graph_bytes(node: bytes, output: str) -> bytes:
    """A graph of one node; its output is a tensor of floats without a shape."""
    value = _field(1, output.encode()) + _field(2, _field(1, b"\x08\x01"))
    return _field(1, node) + _field(2, b"inner") + _field(12, value)


def _first_node(graph: bytes) -> bytes:
    """The payload of the first field of what `_graph_bytes` made."""
    length, shift, position = 0, 0, 1
    while True:
        byte = graph[position]
        length |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return graph[position : position + length]


def _leaf_bytes(output: str) -> bytes:
    """A graph that gives the number one."""
    value = b"\x0a\x0bvalue_float\xa0\x01\x01\x15\0\0\x80?"  # the attribute's name, its type, the number
    return _graph_bytes(_node_bytes("Constant", [], [output], _field(5, value)), output)
