"""The file that holds a signature: read with suspicion, of one form only, so that no part of it is free to change."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from artifactctl.errors import ArtifactDamaged

AGAIN_HINT = "Fetch the artifact and its signature again, from where they were published."
MEDIA_TYPE, PAYLOAD_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.in-toto+json"
SAYS_NOTHING: dict[str, Any] = {"tlogEntries": [], "keyid": ""}  # some versions of the library write these, others not


def read(file: Path) -> dict[str, Any]:
    """A Sigstore bundle with one signed statement in it."""
    try:
        found = json.loads(file.read_bytes())
        envelope, material = found["dsseEnvelope"], found["verificationMaterial"]
        signed = [envelope["payload"], envelope["signatures"][0]["sig"]]
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        raise ArtifactDamaged(f"{file} is not a signature, or a damaged one", hint=AGAIN_HINT) from None
    if not isinstance(material, dict) or not all(map(_canonical, signed)):
        raise ArtifactDamaged(f"{file} was changed after it was made", hint=AGAIN_HINT)
    bundle: dict[str, Any] = found
    return bundle


def statement(bundle: dict[str, Any]) -> dict[str, Any]:
    """What was signed; to be believed only once the signature is known to be genuine."""
    found: dict[str, Any] = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    return found


def demand_made_with(fingerprint: str, bundle: dict[str, Any], file: Path, key: Path) -> None:
    """An error unless it has the form of a key's signature, and names this key."""
    material, envelope = bundle["verificationMaterial"], bundle["dsseEnvelope"]
    if "certificate" in material or "x509CertificateChain" in material:
        hint = "Name who signed it: --identity ID --identity-provider URL"
        raise ArtifactDamaged(f"{file} was not made with a key, but keyless", hint=hint)
    named = material.get("publicKey")
    expected = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": named},
        "dsseEnvelope": {
            "payload": envelope["payload"],
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": envelope["signatures"][0]["sig"]}],
        },
    }
    made_with = named.get("hint") if isinstance(named, dict) and len(named) == 1 else None
    if not isinstance(made_with, str) or _without_empty(bundle) != expected:
        raise ArtifactDamaged(f"{file} was changed after it was made, or made by another tool", hint=AGAIN_HINT)
    if made_with != fingerprint:
        message = f"{file} was made with another key than {key} (sha256 {made_with[:16]}…, not {fingerprint[:16]}…)"
        raise ArtifactDamaged(message, hint="Ask the publisher which public key is the right one.")


def demand_keyless(bundle: dict[str, Any], file: Path) -> None:
    if "publicKey" in bundle["verificationMaterial"]:
        raise ArtifactDamaged(f"{file} was made with a key, not keyless", hint="Name the key: --public-key FILE")


def _canonical(text: Any) -> bool:
    """Base64 of which no bit is left over: two texts never mean the same bytes."""
    try:
        return isinstance(text, str) and base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except ValueError:  # binascii.Error, and letters beyond ASCII
        return False


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in SAYS_NOTHING or item != SAYS_NOTHING[key]}
        return {key: _without_empty(item) for key, item in kept.items()}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
