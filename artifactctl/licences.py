"""What `license:` says: an expression of SPDX, or the name of a licence."""

from __future__ import annotations

import re
from difflib import get_close_matches

_BETWEEN = re.compile(r"\s+(?:and|or|with)\s+|[()]", re.IGNORECASE)
_LIKE = 0.75  # of get_close_matches: 'apache 2' is like Apache-2.0, 'ask us first' is like none


def expression(text: str) -> str | None:
    """As SPDX writes it; None where its list does not know it."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return None


def warning(text: str | None) -> str | None:
    """A name is allowed; but a mistyped id becomes one too, and nothing that reads the bill will know the licence."""
    if not text or expression(text):
        return None
    words = [word.strip() for word in _BETWEEN.split(text) if word.strip()]
    near = next((found for word in words if not expression(word) and (found := _nearest(word))), None)
    advice = f"perhaps you meant {near}" if near else "a licence of your own is written LicenseRef-NAME"
    return f"license {text!r} is not an expression of SPDX and is kept as a name; {advice}"


def _nearest(word: str) -> str | None:
    try:
        from packaging.licenses._spdx import LICENSES  # the list has no public name
    except ImportError:
        return None
    known = [name for name, entry in LICENSES.items() if name[0] == word[0].lower() and not entry["deprecated"]]
    found = get_close_matches(word.lower(), known, n=1, cutoff=_LIKE)
    return LICENSES[found[0]]["id"] if found else None
