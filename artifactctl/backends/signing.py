"""Signatures with OpenSSF model-signing: every file is covered, whatever its name, and nothing else may lie there.

Left to itself the library passes over .git, .github and .gitattributes, over whatever a signature asks it to ignore,
and signs a folder with nothing in it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from model_signing import hashing, signing, verifying
from model_signing.manifest import Manifest
from sigstore import errors as sigstore_errors
from sigstore import oidc

from artifactctl import folder
from artifactctl.backends import bundles, keys
from artifactctl.backends.bundles import AGAIN_HINT
from artifactctl.errors import ArtifactDamaged, NotAvailable

CI_HINT = "Give the job its identity (GitHub: 'permissions: id-token: write'), or sign with a key: --private-key FILE"
NETWORK_HINT = "Keyless signatures need the network (Sigstore); a key does not: --private-key, --public-key"


class EveryFile(hashing.Config):
    """Hashes just what lies there; what a signature asks to be ignored is not ignored."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def hash(
        self, model_path: hashing.PathLike, *, files_to_hash: Iterable[hashing.PathLike] | None = None
    ) -> Manifest:
        path = Path(os.fsdecode(model_path))
        files = plain_files(path)
        self.set_ignored_paths(paths=[], ignore_git_paths=False).set_allow_symlinks(False)
        found = super().hash(path, files_to_hash=files)
        if len(list(found.resource_descriptors())) != len(files):
            raise ArtifactDamaged(f"{path}: not every file can be covered by a signature")
        return found


def plain_files(path: Path) -> list[Path]:
    """Every file of an artifact, or the one file; an error where anything else lies there."""
    if path.is_file() and not path.is_symlink():
        return [path]
    files = [path / name for name in folder.listing(path)]
    for file in files:
        if file.is_symlink() or not file.is_file():
            raise ArtifactDamaged(f"{path}: {file.relative_to(path).as_posix()} is not a plain file")
    for base, folders, names in os.walk(path):
        if not folders and not names:
            place = Path(base).relative_to(path).as_posix()
            raise ArtifactDamaged(f"{path} {'has nothing in it' if place == '.' else f'has an empty folder: {place}'}")
    return files


def sign_files(path: str, private_key: str, password: str | None) -> dict[str, Any]:
    """The signature as text, checked with the key's public half before anyone sees it."""
    secret = password.encode() if password else None
    public = keys.public_half(Path(private_key), secret)
    config = signing.Config().set_hashing_config(EveryFile())
    # the annotation says str, but what it is handed on to takes bytes
    config.use_elliptic_key_signer(private_key=private_key, password=secret)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as place:
        made, key = Path(place) / "signature", Path(place) / "public.pem"
        key.write_bytes(public)
        config.sign(path, made)
        return check_signature(path, str(made), public_key=str(key)) | {"text": made.read_text(encoding="utf-8")}


def check_own_signature(path: str, signature: str, private_key: str, password: str | None) -> dict[str, Any]:
    """Whether a signature is one that this private key made of these files."""
    public = keys.public_half(Path(private_key), password.encode() if password else None)
    with tempfile.TemporaryDirectory() as place:
        key = Path(place) / "public.pem"
        key.write_bytes(public)
        return check_signature(path, signature, public_key=str(key))


def sign_keyless(path: str) -> dict[str, Any]:
    """With the identity that the CI vouches for; no person is asked."""
    try:
        token = oidc.detect_credential()
        if token is None:
            raise NotAvailable("there is no CI identity here, and keyless signing needs one", hint=CI_HINT)
        who = oidc.IdentityToken(token)
    except oidc.IdentityError as error:
        raise NotAvailable(f"the CI identity cannot be used: {_line(error)}", hint=CI_HINT) from None
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / "signature"
        try:
            config = signing.Config().set_hashing_config(EveryFile()).use_sigstore_signer(identity_token=token)
            config.sign(path, made)
        except (sigstore_errors.Error, OSError) as error:
            raise NotAvailable(f"Sigstore cannot be reached: {_line(error)}", hint=NETWORK_HINT) from None
        return {"files": len(plain_files(Path(path))), "by": who.identity, "text": made.read_text(encoding="utf-8")}


def check_signature(
    path: str,
    signature: str,
    public_key: str | None = None,
    identity: str | None = None,
    identity_provider: str | None = None,
) -> dict[str, Any]:
    """How many files it covers and whose it is; an error unless it is genuine, and of just these files."""
    target, file = Path(path), Path(signature)
    bundle = bundles.read(file)
    config = verifying.Config().set_hashing_config(EveryFile())
    if public_key is not None:
        by = keys.fingerprint(keys.public_key(Path(public_key)))
        bundles.demand_made_with(by, bundle, file, Path(public_key))
        config.use_elliptic_key_verifier(public_key=public_key)
    else:
        by = identity or ""
        bundles.demand_keyless(bundle, file)
        try:
            config.use_sigstore_verifier(identity=by, oidc_issuer=identity_provider or "")
        except (sigstore_errors.Error, OSError) as error:
            raise NotAvailable(f"Sigstore cannot be reached: {_line(error)}", hint=NETWORK_HINT) from None
    try:
        config.verify(target, file)
    except InvalidSignature:
        raise ArtifactDamaged(f"{file} was changed after it was made: it is not genuine", hint=AGAIN_HINT) from None
    except sigstore_errors.VerificationError as error:
        message = f"{file} is not a signature of {identity} by {identity_provider}: {_line(error)}"
        raise ArtifactDamaged(message, hint="Check --identity and --identity-provider with the publisher.") from None
    except (ValueError, KeyError, TypeError, sigstore_errors.Error) as error:
        if not str(error).startswith("Signature mismatch"):
            message = f"{file} is not a signature of an artifact: {_line(error)}"
            raise ArtifactDamaged(message, hint=AGAIN_HINT) from None
        raise _what_differs(target, file, bundles.statement(bundle)) from None
    return {"files": len(plain_files(target)), "by": by}


def _what_differs(target: Path, file: Path, statement: dict[str, Any]) -> ArtifactDamaged:
    """In words: the signature is genuine, but these are not the files that it was made of."""
    name = statement["subject"][0]["name"]
    signed = {entry["name"]: entry["digest"] for entry in statement["predicate"]["resources"]}
    present = {entry.relative_to(target).as_posix(): folder.digest(entry) for entry in plain_files(target)}
    same = {name for name in signed.keys() & present.keys() if signed[name] == present[name]}
    if signed.keys() == present.keys() == {"."}:
        message = f"{target} is not the file that was signed: it was changed, or {file} is of another one ({name})"
        return ArtifactDamaged(message, hint=AGAIN_HINT)
    if len(same) * 2 < len(signed):
        # whoever forges a model rewrites most files, so this alone does not tell a mix-up from a forgery
        message = f"{target} is not what was signed: only {len(same)} of the {len(signed)} files signed as {name} agree"
        hint = "Name this artifact's own: --signature FILE. If this is it, the artifact was forged: do not use it."
        return ArtifactDamaged(f"{message}; {file} is of another artifact, or the files were forged", hint=hint)
    words = [f"{name} was added" for name in sorted(present.keys() - signed.keys())]
    words += [f"{name} is missing" for name in sorted(signed.keys() - present.keys())]
    words += [f"{name} was changed" for name in sorted((signed.keys() & present.keys()) - same)]
    more = f" (and {len(words) - 5} more)" if len(words) > 5 else ""
    return ArtifactDamaged(f"{target} is not what was signed: {'; '.join(words[:5])}{more}", hint=AGAIN_HINT)


def _line(error: BaseException) -> str:
    """One line of what a library says."""
    return " ".join(str(error).split())[:300] or type(error).__name__
