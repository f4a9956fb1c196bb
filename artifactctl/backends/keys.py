"""The keys that signatures are made and checked with: elliptic curves, PEM files, no network."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from artifactctl.errors import ArtifactDamaged

CURVES = ("secp256r1", "secp384r1", "secp521r1")
MAKE_KEYS = "openssl ecparam -name prime256v1 -genkey -noout -out key.pem; openssl ec -in key.pem -pubout -out key.pub"


def public_half(path: Path, password: bytes | None) -> bytes:
    content = _content(path, "private key")
    try:
        key = serialization.load_pem_private_key(content, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if b"ENCRYPTED" in content:
            hint = "Set ARTIFACTCTL_PASSWORD to the password of the key."
            raise ArtifactDamaged(f"{path} is encrypted, and the password is missing or wrong", hint=hint) from None
        if password is not None and b"PRIVATE KEY" in content:
            raise ArtifactDamaged(f"{path} is not encrypted, or no private key", hint="Leave --password out.") from None
        raise ArtifactDamaged(f"{path} is not a private key in PEM form", hint=f"Make a pair: {MAKE_KEYS}") from None
    return _pem(_demand_curve(key.public_key(), path))


def public_key(path: Path) -> ec.EllipticCurvePublicKey:
    content = _content(path, "public key")
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if b"PRIVATE KEY" in content:
            hint = f"Its public half is what is given away: openssl ec -in {path} -pubout -out key.pub"
            raise ArtifactDamaged(f"{path} is a private key, not a public one", hint=hint) from None
        raise ArtifactDamaged(
            f"{path} is not a public key in PEM form", hint="Fetch the publisher's public key again."
        ) from None
    return _demand_curve(key, path)


def _content(path: Path, what: str) -> bytes:
    if not path.is_file():
        raise ArtifactDamaged(f"there is no {what} at {path}", hint="Check the path of the key.")
    return path.read_bytes()


def _demand_curve(key: object, path: Path) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        message = f"{path} is not a key on one of the curves P-256, P-384 and P-521"
        raise ArtifactDamaged(message, hint=f"Make a pair: {MAKE_KEYS}")
    return key


def _pem(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    return hashlib.sha256(_pem(key)).hexdigest()
