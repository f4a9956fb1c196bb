"""What each release of ONNX Runtime takes: opset, ai.onnx.ml opset, IR, and operators of its own that run on the CPU.

    python benchmarks/releases.py > artifactctl/releases.toml

Fetches each release from PyPI, loads tiny models into it, and prints the table. A release that nobody asked is not in
it. Needs pip, onnx, and a Python that all of them have wheels for (3.11).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

RELEASES = (
    *("1.15.1", "1.16.3", "1.17.3", "1.18.1", "1.19.2", "1.20.1", "1.21.1", "1.22.1", "1.23.2", "1.24.3", "1.25.1"),
    *("1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1"),
)
OLD_NUMPY = "1.26.4"  # releases before 1.19 were built for numpy 1
OPSETS, ML_OPSETS, IRS = range(7, 40), range(1, 12), range(3, 24)

PROBE = """
import json, sys
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as native

onnxruntime.set_default_logger_severity(4)

def largest(kind):
    found = 0
    for number, path in json.loads(sys.argv[1])[kind]:
        try:
            onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            found = number
        except Exception:
            pass
    return found

def kernels():
    if not hasattr(native, "get_all_opkernel_def"):  # the wheels of older releases
        return None
    found = native.get_all_opkernel_def()
    return sorted({k.op_name for k in found if k.domain == "com.microsoft" and k.provider.startswith("CPU")})

def registered(name, content):
    try:
        onnxruntime.InferenceSession(bytes.fromhex(content), providers=["CPUExecutionProvider"])
    except Exception as error:
        return "is not a registered function/op" not in str(error)
    return True

found = {kind: largest(kind) for kind in ("opset", "ml", "ir")}
asked = json.loads(sys.argv[1])["operators"]
print(json.dumps(found | {"kernels": kernels(), "known": [name for name in asked if registered(name, asked[name])]}))
"""


def models(place: Path) -> dict[str, list[tuple[int, str]]]:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    plain = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    learned = helper.make_graph([helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml")], "g", [x], [y])

    def save(name: str, graph: Any, ir: int, opset: int, ml: int | None = None) -> str:
        opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid("ai.onnx.ml", ml)] if ml else [])]
        path = place / f"{name}.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=ir).SerializeToString())
        return str(path)

    return {
        "opset": [(number, save(f"opset-{number}", plain, 3, number)) for number in OPSETS],
        "ml": [(number, save(f"ml-{number}", learned, 3, 7, number)) for number in ML_OPSETS],
        "ir": [(number, save(f"ir-{number}", plain, number, 7)) for number in IRS],
    }


def unpacked(package: str, place: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(place)]
    subprocess.run([*pip, package], check=True, capture_output=True)
    wheel = next(place.glob(f"{package.replace('==', '-')}-*.whl"))
    zipfile.ZipFile(wheel).extractall(place / wheel.stem)
    return place / wheel.stem


def own_operator(name: str) -> str:
    """A model of one node that no operator accepts: the error tells whether the operator is known."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(value, TensorProto.FLOAT, [1]) for value in "xy")
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], domain="com.microsoft")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=7).SerializeToString()
    return made.hex()


def measured() -> dict[str, dict[str, Any]]:
    """By release, the newest first; where a release does not list its kernels, the one after it is believed."""
    found: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        asked = models(place)
        numpy = unpacked(f"numpy=={OLD_NUMPY}", place)
        for release in reversed(RELEASES):
            paths = [unpacked(f"onnxruntime=={release}", place)]
            paths += [numpy] if int(release.split(".")[1]) < 19 else []
            env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
            words = json.dumps(asked | {"operators": {name: own_operator(name) for name in sorted(names)}})
            done = subprocess.run(
                [sys.executable, "-c", PROBE, words], env=env, check=False, capture_output=True, text=True
            )
            if done.returncode:
                sys.exit(f"{release}: {done.stderr}")
            row = json.loads(done.stdout.splitlines()[-1])
            kernels = names if row["kernels"] is None else set(row["kernels"])
            names = kernels & set(row["known"]) if found else kernels
            found[release] = row | {"operators": names}
            sys.stderr.write(f"{release} opset {row['opset']}, IR {row['ir']}, {len(names)} operators\n")
    return found


def main() -> None:
    print(
        '# What each release of ONNX Runtime takes; "operators" are those of com.microsoft that it has CPU kernels for'
    )
    print("# and the release before it has not. Measured by benchmarks/releases.py on the wheels of PyPI.")
    known: set[str] = set()
    for release, row in reversed(measured().items()):
        new = sorted(row["operators"] - known)
        known |= set(new)
        version = ".".join(release.split(".")[:2])
        print(f'\n[[release]]\nversion = "{version}"\nopset = {row["opset"]}\nml = {row["ml"]}\nir = {row["ir"]}')
        print("operators = [" + "".join(f'\n  "{name}",' for name in new) + ("\n]" if new else "]"))


if __name__ == "__main__":
    main()
