"""Every kind of damage is described or refused; nothing outside the model's folder is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from artifactctl.backends.compare import describe_for_diff
from artifactctl.errors import SourceError
from artifactctl.steps.sides import side_of
from tests.conftest import MODELS
from tests.models.damage import NAME, Case, Outside, plan

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the traps are pipes and links")

CASES = plan(60, 1, [MODELS / f"{name}.onnx" for name in ("mlp", "cnn", "branch", "tokens")])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.kind}")
def test_damage(case: Case, tmp_path: Path) -> None:
    outside = Outside(tmp_path)
    outside.canary.write_bytes(bytes(100))
    os.mkfifo(outside.pipe)
    place = tmp_path / "cases" / "one"
    place.mkdir(parents=True)
    case.write(place, outside)
    try:
        assert json.dumps(describe_for_diff(str(side_of(place / NAME).model)), allow_nan=False)
    except SourceError as error:
        assert error.hint
