"""Real keys, and the tampering of somebody who knows about digests."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from artifactctl import folder

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def write_keys(
    place: Path, name: str = "key", key: PrivateKey | None = None, password: str | None = None
) -> tuple[Path, Path]:
    """key.pem and key.pub; on P-256 unless another key is given."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    private, public = place / f"{name}.pem", place / f"{name}.pub"
    pem = serialization.Encoding.PEM
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, locked))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def cover_up(artifact: Path, name: str, before: str) -> None:
    """After `name` was changed: its digest anew wherever it is recorded, theirs in turn, and SHA256SUMS."""
    changed = {name: before}
    for other in (*sorted(set(folder.listing(artifact)) - {name, folder.METADATA, folder.SUMS}), folder.METADATA):
        path, was = artifact / other, folder.digest(artifact / other)
        content = path.read_bytes()
        for done, old in changed.items():
            content = content.replace(old.encode(), folder.digest(artifact / done).encode())
        if other != name and content != path.read_bytes():
            path.write_bytes(content)
            changed[other] = was
    (artifact / folder.SUMS).unlink()
    folder.write_sums(artifact)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << position % 8)]))
