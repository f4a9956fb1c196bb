"""Who runs what, with real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artifactctl.crew import Crew
from artifactctl.project import Bound
from artifactctl.resources import template_path
from tests.conftest import MODELS
from tests.unit.backends.small import SETTINGS, floats, model, node, write

PLAN = {"states": [], "batched": False}
BOUNDS = {"default": asdict(Bound(max_abs=1e-3)), "outputs": {}}


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, Any]:
    """A model that answers 0 where denormal numbers are flushed, and the answers of one where they are not."""
    weights = {"half": np.array(0.5, np.float32), "large": np.array(2.0**120, np.float32)}
    nodes = [node("Mul", ["x", "half"], ["tiny"]), node("Mul", ["tiny", "large"], ["y"])]
    path = write(model(nodes, [floats("x", 2)], [floats("y", 2)], weights), tmp_path / "m.onnx")
    x = np.array([2.0**-128, 2.0**-127], np.float32)
    golden = tmp_path / "golden.npz"
    np.savez(golden, **{"0/inputs/x": x, "0/outputs/y": x * weights["half"] * weights["large"]})
    return {"path": path, "golden": str(golden), "bounds": BOUNDS, "plan": PLAN}


def test_who_flushes_denormal_numbers_has_a_process_of_its_own(asked: dict[str, Any]) -> None:
    """ONNX Runtime takes that from the first session of a process, and keeps it for all others."""
    with Crew() as crew:
        for flush in (False, True, False, True):
            found = crew.ask("runner", "verify_golden", settings=SETTINGS | {"flush_denormals": flush}, **asked)
            assert [output["passed"] for output in found["outputs"]] == [not flush]


TUNED = {"arena": False, "memory_pattern": False, "flush_denormals": True, "allow_spinning": False}
OPENED = """import json, sys
sys.path.insert(0, sys.argv[1])
import validate
options = validate.open_session(sys.argv[2], json.loads(sys.argv[3])).get_session_options()
entry = options.get_session_config_entry
print(json.dumps({"arena": options.enable_cpu_mem_arena, "memory_pattern": options.enable_mem_pattern,
    "flush_denormals": entry("session.set_denormal_as_zero") == "1", "threads": options.intra_op_num_threads,
    "allow_spinning": entry("session.intra_op.allow_spinning") == "1"}))
"""


def test_validate_opens_a_session_as_it_was_tuned() -> None:
    settings = SETTINGS | TUNED | {"intra_op_threads": 2}
    words = [str(template_path("validate.py").parent), str(MODELS / "mlp.onnx"), json.dumps(settings)]
    done = subprocess.run([sys.executable, "-c", OPENED, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == TUNED | {"threads": 2}
