"""Whether an artifact's validate.py is one that artifactctl wrote for it: people run that file and believe it.

SHA256SUMS and metadata.yaml can be written anew by whoever edits a file. The program cannot: outside its data block it
is the template of this version or of a released one, and the block says what metadata.yaml says.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from artifactctl import __version__
from artifactctl.folder import VALIDATE
from artifactctl.metadata import DATA_BLOCK, DATA_STATEMENT, validate_data
from artifactctl.resources import template_text


def problems(folder: Path, metadata: Mapping[str, Any], known: Container[str] | None = None) -> list[str]:
    """`known` are the fingerprints of released versions, where not those of this one's history."""
    try:
        text = (folder / VALIDATE).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [f"{VALIDATE} cannot be read ({error})"]
    found, expected = _block_data(text), validate_data(metadata)
    if found is None:
        return [f"{VALIDATE} was edited: its data block holds more than data"]
    mark = fingerprint(text, found)
    if mark != fingerprint(template_text(VALIDATE), expected) and mark not in (released() if known is None else known):
        return [f"{VALIDATE} was edited, or a newer artifactctl than this one ({__version__}) wrote it"]
    if not _fits(found, expected):
        return [f"{VALIDATE} was edited: its data is not what metadata.yaml says"]
    return []


def fingerprint(text: str, data: Mapping[str, Any]) -> str:
    """Of the code outside the data block, and of what in the block is the same for all artifacts."""
    code = DATA_BLOCK.sub("# <data>\n# </data>\n", text, count=1)
    plan = data.get("plan")
    shape = [list(data), list(plan) if isinstance(plan, dict) else None, data.get("providers")]
    return hashlib.sha256(f"{code}\n{shape}".encode()).hexdigest()


@cache
def released() -> dict[str, str]:
    """The version of artifactctl by the fingerprint of its validate.py."""
    lines = template_text("validate.history").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines if line and not line.startswith("#")}


def _block_data(text: str) -> dict[str, Any] | None:
    """The data as Python would see it, or None where there is more than data."""
    match = DATA_BLOCK.search(text)
    block = match.group() if match else ""
    inside = block.removeprefix("# <data>\n").removesuffix("# </data>\n")
    plain = all(letter == "\n" or letter.isprintable() for letter in inside)
    if not plain or not inside.startswith(DATA_STATEMENT):
        return None
    try:
        (statement,) = ast.parse(inside).body
        tokens = tokenize.generate_tokens(io.StringIO(inside).readline)
        if not isinstance(statement, ast.AnnAssign) or any(token.type == tokenize.COMMENT for token in tokens):
            return None
        found = ast.literal_eval(inside.removeprefix(DATA_STATEMENT))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    return found if isinstance(found, dict) else None


def _fits(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Equal in all that is this artifact's own; an older version knew less, as its fingerprint says."""
    own = dict(found) | {"providers": None}
    wanted = {key: expected.get(key) for key in found} | {"providers": None}
    wanted["plan"] = {key: expected["plan"].get(key) for key in found["plan"]}
    return repr(own) == repr(wanted)  # 1, 1.0 and True are equal, but not the same
