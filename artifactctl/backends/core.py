"""The comparison and the input maker of templates/validate.py: the lines that prove a build are the lines it ships."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from artifactctl.resources import template_path


def _load() -> ModuleType:
    name = "artifactctl_validate_template"
    spec = importlib.util.spec_from_file_location(name, template_path("validate.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_template = _load()

as_written = _template.as_written
compare_fresh = _template.compare_fresh
compare_golden = _template.compare_golden
Accuracy = _template.Accuracy
Comparison = _template.Comparison
Failure = _template.Failure
ODD_TYPES = _template.ODD_TYPES
available_providers = _template.available_providers
carry = _template.carry
decode = _template.decode
fill = _template.fill
flatten = _template.flatten
make_inputs = _template.make_inputs
open_session = _template.open_session
counted = _template.counted
placement = _template.placement
prepare = _template.prepare
proved_placement = _template.proved_placement
read_golden = _template.read_golden
rows = _template.rows
run = _template.run
runtime_errors = _template.runtime_errors
