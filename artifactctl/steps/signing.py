"""Signing an artifact or a package, and checking a signature before anything else of it is believed."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import inspection
from artifactctl.environment import package_versions
from artifactctl.errors import ArtifactDamaged, Conflict, NotAvailable
from artifactctl.folder import shown, write_whole
from artifactctl.process import OperationFailed, Worker, WorkerDied
from artifactctl.project import Limits

INSTALL = "pip install 'artifactctl[sign]'"
PACKAGES = ("model-signing", "pyOpenSSL")


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, or with None the identity of the CI."""

    private_key: Path | None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose signature is believed: a key's, or that of an identity."""

    public_key: Path | None = None
    identity: str | None = None
    identity_provider: str | None = None
    signature: Path | None = None  # None: the one beside the artifact


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that was made or checked; `by` is the sha256 of the public key, or the identity."""

    path: Path
    signature: Path
    by: str
    files: int
    status: str  # signed, unchanged, valid

    def as_json(self) -> dict[str, Any]:
        paths = {"path": shown(self.path), "signature": shown(self.signature)}
        return paths | {"by": self.by, "files": self.files, "status": self.status}


@dataclass(frozen=True, slots=True)
class Child:
    """The library takes a second to load and prints what it likes. Paths come back as they were typed."""

    limits: Limits
    verbose: bool
    typed: tuple[Path | None, ...]

    def ask(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        missing = [name for name in PACKAGES if not package_versions((name,))]
        if missing:
            message = f"signatures need {' and '.join(PACKAGES)}; not installed: {', '.join(missing)}"
            raise NotAvailable(message, hint=INSTALL)
        sent = {key: str(value) if isinstance(value, Path) else value for key, value in arguments.items()}
        with (
            tempfile.TemporaryDirectory() as scratch,
            Worker("signer", Path(scratch), verbose=self.verbose, memory_mb=self.limits.memory_mb) as worker,
        ):
            try:
                found: dict[str, Any] = worker.call(operation, timeout_s=self.limits.time_s, **sent)
            except (NotAvailable, ArtifactDamaged) as error:
                raise type(error)(self._as_typed(str(error)), hint=self._as_typed(error.hint)) from None
            except WorkerDied as error:
                raise NotAvailable(f"model-signing did not answer: {error}", hint="Try it with -v.") from None
            except OperationFailed as error:
                # what cannot be read is damaged; keyless, nothing was read, and Sigstore is the one that refused
                kind = NotAvailable if operation == "sign_keyless" else ArtifactDamaged
                raise kind(self._as_typed(f"the signature cannot be used: {error}")) from None
        return found

    def _as_typed(self, text: str) -> str:
        known = {str(real): str(path) for path in self.typed if path for real in (path.resolve(), path.absolute())}
        longest_first = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
        return re.sub(longest_first, lambda match: known[match[0]], text)


def signature_place(path: Path) -> Path:
    """Beside the artifact or the package, never inside."""
    real = path.resolve()
    name = real.name.removesuffix(".zip") if real.is_file() else real.name
    return path.parent / f"{name}.sig" if path.name == real.name else real.with_name(f"{name}.sig")


def is_inside(signature: Path, path: Path) -> bool:
    """A signature inside would be one more file that nobody signed."""
    return signature.resolve().is_relative_to(path.resolve())


def sign(path: Path, signer: Signer, signature: Path | None, limits: Limits, *, verbose: bool) -> Signed:
    """Of a whole artifact or package only; a signature that is there already and holds stays as it is."""
    _demand_whole(path)
    target = signature or signature_place(path)
    asked: dict[str, Any] = {"path": path.resolve()}
    if signer.private_key is not None:
        asked |= {"private_key": signer.private_key.absolute(), "password": signer.password}
    child = Child(limits, verbose, (path, signer.private_key, target))
    if target.exists():
        return _unchanged(path, target, asked, child)
    found = child.ask("sign_files" if signer.private_key else "sign_keyless", asked)
    write_whole(target, found["text"])
    return Signed(path, target, found["by"], found["files"], "signed")


def _unchanged(path: Path, target: Path, asked: dict[str, Any], child: Child) -> Signed:
    hint = f"Remove {target}, or write to another file: --signature FILE"
    if "private_key" not in asked:
        raise Conflict(f"{target} exists already, and is not replaced", hint=hint)
    try:
        found = child.ask("check_own_signature", asked | {"signature": target.absolute()})
    except ArtifactDamaged as error:
        raise Conflict(f"{target} exists already, and is no such signature of {path}: {error}", hint=hint) from None
    return Signed(path, target, found["by"], found["files"], "unchanged")


def check(path: Path, trust: Trust, limits: Limits, *, verbose: bool) -> Signed:
    """An error unless the signature is genuine, of this key or identity, and of just these files."""
    if not path.exists():
        raise ArtifactDamaged(f"{path} does not exist", hint="Name an artifact's folder, or a package.")
    target = trust.signature or signature_place(path)
    if not target.is_file():
        hint = "Fetch it from where the artifact was published, or name it: --signature FILE"
        raise ArtifactDamaged(f"there is no signature of {path} at {target}", hint=hint)
    asked: dict[str, Any] = {"path": path.resolve(), "signature": target.absolute()}
    if trust.public_key is not None:
        asked["public_key"] = trust.public_key.absolute()
    else:
        asked |= {"identity": trust.identity, "identity_provider": trust.identity_provider}
    found = Child(limits, verbose, (path, trust.public_key, target)).ask("check_signature", asked)
    return Signed(path, target, found["by"], found["files"], "valid")


def _demand_whole(path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        inspection.opened(path, Path(scratch))
