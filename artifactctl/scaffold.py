"""What `init` writes: a configuration for the models found here, a workflow, a pre-commit entry."""

from __future__ import annotations

import os
import re
from pathlib import Path

from artifactctl import __version__
from artifactctl.config import CONFIG_NAME
from artifactctl.git import head_of
from artifactctl.resources import checkout, commit, template_text
from artifactctl.versions import model_name_from

WORKFLOW = Path(".github/workflows/artifact.yml")
PRE_COMMIT = Path(".pre-commit-config.yaml")
INVENTED = "models/my_model.onnx"  # stands in a configuration for a model that was not found
_HOOK = re.compile(r"(?=^ +- id: (\S+))", re.MULTILINE)
_SKIPPED = {"artifacts", "node_modules", "site-packages"}


def wanted_files(config: Path | None, *, workflow: bool, pre_commit: bool) -> dict[Path, str]:
    place = config or Path(CONFIG_NAME)
    wanted = {place: _configuration(place.parent)}
    if workflow:
        wanted[WORKFLOW] = _workflow()
    if pre_commit:
        wanted[PRE_COMMIT] = template_text("pre-commit.yaml")
    return wanted


def write_missing(wanted: dict[Path, str]) -> list[dict[str, str]]:
    """Write what is not there; an existing file is kept as it is."""
    files = []
    for path, text in wanted.items():
        status = "kept"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
            status = "written"
        entry = {"path": path.as_posix(), "status": status}
        if path == PRE_COMMIT and status == "kept" and (lines := _missing_hooks(path, text)):
            entry["add"] = lines
        files.append(entry)
    return files


def describe(files: list[dict[str, str]], wanted: dict[Path, str]) -> str:
    lines = []
    for entry in files:
        if entry["status"] == "written":
            lines.append(f"written  {entry['path']}")
            continue
        lines.append(f"kept     {entry['path']} (it exists, and is never changed)")
        if "add" in entry:
            lines += ["         add these lines below its 'repos:':", entry["add"].rstrip()]
    found_none = any(INVENTED in text for text in wanted.values())
    step = "name your own model in it (none was found here)" if found_none else "look at the configuration"
    hook = ", and once 'pre-commit install'" if PRE_COMMIT in wanted else ""
    return "\n".join([*lines, f"Next: {step}, then type 'artifactctl build'{hook}"])


def _workflow() -> str:
    """Pinned to the commit that this version was built from; one that does not know it has only its version's tag."""
    built_from = commit() or head_of(checkout())
    pin = f"{built_from} # v{__version__}" if built_from else f"v{__version__}"
    return template_text("workflow.yml").replace("PIN", pin)


def _missing_hooks(path: Path, text: str) -> str | None:
    """The lines that an existing pre-commit configuration lacks, or None."""
    try:
        present = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        present = ""
    head, *hooks = _HOOK.split(text.partition("repos:\n")[2])
    left = [lines for name, lines in zip(hooks[::2], hooks[1::2], strict=True) if name not in present]
    return head + "".join(left) if left else None


def _configuration(home: Path) -> str:
    """The ONNX files that lie here, relative to the configuration's folder, or a model to be filled in."""
    models: dict[str, str] = {}
    for path in sorted(Path().rglob("*.onnx")):
        if not any(part.startswith(".") or part in _SKIPPED for part in path.parts) and len(models) < 20:
            models.setdefault(model_name_from(path.stem), Path(os.path.relpath(path, home)).as_posix())
    blocks = [
        f"  {name}:\n    source:\n      onnx: {_quoted(file)}\n"
        for name, file in (models or {"my_model": INVENTED}).items()
    ]
    return template_text("artifactctl.yaml").replace("# <models>\n", "".join(blocks))


def _quoted(text: str) -> str:
    plain = all(char.isalnum() or char in "/_-." for char in text) and text.isascii()
    return text if plain else "'" + text.replace("'", "''") + "'"
