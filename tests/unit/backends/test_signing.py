"""model-signing with its holes closed: every file counts, dot-files too, and nothing else may lie there."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from model_signing import hashing
from model_signing import signing as library
from model_signing import verifying as library_verifying

from artifactctl import folder, inspection, zips
from artifactctl.backends import keys, signing
from artifactctl.errors import ArtifactctlError, ArtifactDamaged
from tests.signatures import cover_up, flip, write_keys

pytestmark = pytest.mark.xdist_group("built")  # one process builds, once

DOT_FILES = (".gitattributes", ".gitignore", ".git/config", ".github/workflows/x.yml", ".hidden", "evidence/.more")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write_keys(tmp_path)


@pytest.fixture
def signature(artifact: Path, tmp_path: Path, pair: tuple[Path, Path]) -> Path:
    made = signing.sign_files(str(artifact), str(pair[0]), None)
    path = tmp_path / "artifact.sig"
    path.write_text(made["text"], encoding="utf-8")
    return path


def refused(path: Path, signature: Path, key: Path, *names: str) -> ArtifactctlError:
    with pytest.raises(ArtifactDamaged) as found:
        signing.check_signature(str(path), str(signature), public_key=str(key))
    for name in names:
        assert name in str(found.value)
    assert found.value.hint
    return found.value


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name)
def test_signed_and_checked(artifact: Path, tmp_path: Path, curve: ec.EllipticCurve) -> None:
    private, public = write_keys(tmp_path, key=ec.generate_private_key(curve))
    made = signing.sign_files(str(artifact), str(private), None)
    file = tmp_path / "a.sig"
    file.write_text(made.pop("text"))
    assert signing.check_signature(str(artifact), str(file), public_key=str(public)) == made
    assert made == {"files": len(folder.listing(artifact)), "by": keys.fingerprint(keys.public_key(public))}
    assert str(tmp_path) not in file.read_text()


def test_a_changed_byte_is_found_whatever_was_recomputed(
    artifact: Path, tmp_path: Path, signature: Path, pair: tuple[Path, Path]
) -> None:
    """Digests can be written anew by anyone: a changed model, sample or card then goes unseen. In other files a grammar
    or a template finds some changes, by luck."""
    rng = random.Random(5)
    original = Path(shutil.copytree(artifact, tmp_path / "original"))
    unseen = Counter[str]()
    for name in folder.listing(artifact):
        for _ in range(20):
            before = folder.digest(artifact / name)
            flip(artifact / name, rng.randrange((artifact / name).stat().st_size))
            if name != folder.SUMS:
                cover_up(artifact, name, before)
            refused(artifact, signature, pair[1], "is not what was signed")
            try:
                inspection.whole_artifact(artifact)
                unseen[name] += 1
            except ArtifactDamaged:
                pass
            shutil.copytree(original, artifact, dirs_exist_ok=True)
    assert [unseen[name] for name in (folder.MODEL, folder.GOLDEN, "README.md")] == [20, 20, 20]
    signing.check_signature(str(artifact), str(signature), public_key=str(pair[1]))


@pytest.mark.parametrize("name", DOT_FILES)
def test_a_dot_file_that_was_added(artifact: Path, signature: Path, pair: tuple[Path, Path], name: str) -> None:
    (artifact / name).parent.mkdir(parents=True, exist_ok=True)
    (artifact / name).write_text("added")
    refused(artifact, signature, pair[1], f"{name} was added")


@pytest.mark.parametrize("name", DOT_FILES)
def test_a_dot_file_that_was_signed_and_changed(
    artifact: Path, tmp_path: Path, pair: tuple[Path, Path], name: str
) -> None:
    (artifact / name).parent.mkdir(parents=True, exist_ok=True)
    (artifact / name).write_text("part of it")
    file = tmp_path / "with.sig"
    file.write_text(signing.sign_files(str(artifact), str(pair[0]), None)["text"])
    signing.check_signature(str(artifact), str(file), public_key=str(pair[1]))
    (artifact / name).write_text("changed")
    refused(artifact, file, pair[1], f"{name} was changed")


@pytest.mark.parametrize("ignored", ["model_opt.onnx", "evidence", ".gitattributes"])
def test_what_a_signature_asks_to_be_ignored_is_not(
    artifact: Path, tmp_path: Path, pair: tuple[Path, Path], ignored: str
) -> None:
    """The library itself believes such a signature, by the same key."""
    (artifact / ".gitattributes").write_text("* filter=evil")
    file = tmp_path / "lax.sig"
    lax = hashing.Config().set_ignored_paths(paths=[ignored])
    library.Config().use_elliptic_key_signer(private_key=pair[0]).set_hashing_config(lax).sign(artifact, file)
    library_verifying.Config().use_elliptic_key_verifier(public_key=pair[1]).verify(artifact, file)
    refused(artifact, file, pair[1], ".gitattributes was added", ignored)


def test_an_empty_folder_is_neither_signed_nor_believed(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    empty, file = tmp_path / "empty", tmp_path / "empty.sig"
    empty.mkdir()
    with pytest.raises(ArtifactDamaged, match="has nothing in it"):
        signing.sign_files(str(empty), str(pair[0]), None)
    library.Config().use_elliptic_key_signer(private_key=pair[0]).sign(empty, file)
    refused(empty, file, pair[1], "has nothing in it")


def _link_beside(artifact: Path) -> str:
    (artifact / "link").symlink_to("validate.py")
    return "link"


def _link_instead(artifact: Path) -> str:
    (artifact / "golden.npz").rename(artifact.parent / "elsewhere.npz")
    (artifact / "golden.npz").symlink_to(artifact.parent / "elsewhere.npz")
    return "golden.npz"


def _linked_folder(artifact: Path) -> str:
    (artifact / "evidence").rename(artifact.parent / "elsewhere")
    (artifact / "evidence").symlink_to(artifact.parent / "elsewhere")
    return "evidence"


def _pipe(artifact: Path) -> str:
    os.mkfifo(artifact / "pipe")
    return "pipe"


def _empty_folder(artifact: Path) -> str:
    (artifact / "evidence" / "more").mkdir()
    return "evidence/more"


@pytest.mark.parametrize("spoil", [_link_beside, _link_instead, _linked_folder, _pipe, _empty_folder])
def test_what_is_not_a_plain_file(
    artifact: Path, signature: Path, pair: tuple[Path, Path], spoil: Callable[[Path], str]
) -> None:
    name = spoil(artifact)
    refused(artifact, signature, pair[1], name)
    with pytest.raises(ArtifactDamaged, match=name):
        signing.sign_files(str(artifact), str(pair[0]), None)


def test_a_missing_file(artifact: Path, signature: Path, pair: tuple[Path, Path]) -> None:
    (artifact / "README.md").unlink()
    refused(artifact, signature, pair[1], "README.md is missing")


def test_a_signature_in_which_any_byte_was_changed(artifact: Path, signature: Path, pair: tuple[Path, Path]) -> None:
    whole = signature.read_bytes()
    for position in range(0, len(whole), 5):
        flip(signature, position)
        refused(artifact, signature, pair[1], signature.name)
        signature.write_bytes(whole)
    for half in (b"", whole[: len(whole) // 2], b"[]", b"null", b"\xff", b"[" * 100_000):
        signature.write_bytes(half)
        refused(artifact, signature, pair[1], "is not a signature")


def test_another_key(artifact: Path, tmp_path: Path, signature: Path) -> None:
    _, other = write_keys(tmp_path, "other")
    refused(artifact, signature, other, "was made with another key than", str(other))
    bundle = json.loads(signature.read_text())
    bundle["verificationMaterial"]["publicKey"]["hint"] = keys.fingerprint(keys.public_key(other))
    signature.write_text(json.dumps(bundle))
    refused(artifact, signature, other, "is not genuine")


def test_of_another_artifact(artifact: Path, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other, file = Path(shutil.copytree(artifact, tmp_path / "other" / "artifact_v7")), tmp_path / "other.sig"
    for name in folder.listing(other):
        (other / name).write_bytes((other / name).read_bytes() + b"\n")
    file.write_text(signing.sign_files(str(other), str(pair[0]), None)["text"])
    refused(artifact, file, pair[1], "files signed as artifact_v7 agree", "is of another artifact, or")


def test_a_package_is_signed_by_its_bytes(artifact: Path, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    package, file = tmp_path / "mlp-artifact_v1.zip", tmp_path / "mlp-artifact_v1.sig"
    zips.write(package, {f"artifact_v1/{name}": artifact / name for name in folder.listing(artifact)})
    file.write_text(signing.sign_files(str(package), str(pair[0]), None)["text"])
    assert signing.check_signature(str(package), str(file), public_key=str(pair[1]))["files"] == 1
    refused(artifact, file, pair[1], "files signed as mlp-artifact_v1.zip agree")
    whole, rng = package.read_bytes(), random.Random(7)
    for _ in range(100):
        flip(package, rng.randrange(len(whole)))
        refused(package, file, pair[1], "is not the file that was signed")
        package.write_bytes(whole)
    package.write_bytes(whole + b"\n")
    refused(package, file, pair[1], "is not the file that was signed")


def test_keys_that_are_none(artifact: Path, tmp_path: Path, signature: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("-----BEGIN PUBLIC KEY-----\nnothing\n-----END PUBLIC KEY-----\n")
    refused(artifact, signature, text, str(text), "is not a public key")
    refused(artifact, signature, tmp_path / "gone.pub", "there is no public key at", "gone.pub")
    refused(artifact, signature, tmp_path / "key.pem", "is a private key, not a public one")
    others = {
        "rsa": rsa.generate_private_key(65537, 2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "secp256k1": ec.generate_private_key(ec.SECP256K1()),
    }
    for name, key in others.items():
        private, public = write_keys(tmp_path, name, key)
        refused(artifact, signature, public, f"{name}.pub", "P-256")
        with pytest.raises(ArtifactDamaged, match="P-256"):
            signing.sign_files(str(artifact), str(private), None)
    for path in (text, tmp_path / "key.pub"):
        with pytest.raises(ArtifactDamaged, match="is not a private key"):
            signing.sign_files(str(artifact), str(path), None)


def test_an_encrypted_key(artifact: Path, tmp_path: Path) -> None:
    locked, _ = write_keys(tmp_path, "locked", password="open sesame")
    assert signing.sign_files(str(artifact), str(locked), "open sesame")["text"]
    for wrong in (None, "close"):
        with pytest.raises(ArtifactDamaged, match="the password is missing or wrong") as found:
            signing.sign_files(str(artifact), str(locked), wrong)
        assert "ARTIFACTCTL_PASSWORD" in found.value.hint
    plain, _ = write_keys(tmp_path, "plain")
    with pytest.raises(ArtifactDamaged, match="is not encrypted"):
        signing.sign_files(str(artifact), str(plain), "open sesame")
