"""sign, and verify with a key, an identity or a policy: as users and CI meet them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jwt
import numpy
import pytest

from artifactctl import archive, folder, schema, zips
from artifactctl.errors import ArtifactDamaged
from artifactctl.project import Limits
from artifactctl.steps import signing
from tests.conftest import ROOT, Finished, clean_environment
from tests.flow.refusal import contents, fails, refused
from tests.signatures import cover_up, flip, write_keys

Cli = Callable[..., Finished]

pytestmark = pytest.mark.xdist_group("built")  # one process builds, once

NO_CI = {"GITLAB_CI": "", "CIRCLECI": "", "BUILDKITE": "", "GOOGLE_SERVICE_ACCOUNT_NAME": ""}


@pytest.fixture
def place(artifact: Path) -> Path:
    """The working directory, with mlp/artifact_v1, key.pem and key.pub in it."""
    write_keys(artifact.parent.parent)
    return artifact.parent.parent


@pytest.fixture
def signed(place: Path, artifact: Path) -> Path:
    signing.sign(artifact, signing.Signer(place / "key.pem"), None, Limits(), verbose=False)
    return artifact


def test_sign_and_verify(cli: Cli, place: Path, artifact: Path) -> None:
    before = contents(artifact)
    made = cli("sign", "mlp/artifact_v1", "--private-key", "key.pem", "--json", cwd=place)
    assert made.code == 0, made.err
    assert schema.problems(made.json, "report") == []
    data = made.json["data"]
    assert (data["signature"], data["status"], data["files"]) == ("mlp/artifact_v1.sig", "signed", len(before) - 1)
    again = cli("sign", "artifact_v1", "--private-key", "../key.pem", "--json", cwd=place / "mlp")
    assert again.json["data"] | {"status": "signed"} == data | {"path": "artifact_v1", "signature": "artifact_v1.sig"}
    assert again.json["data"]["status"] == "unchanged"
    assert contents(artifact) == before
    required = ("--require", "equivalence,equivalence[cpu]", "--require", "signature")
    done = cli("verify", ".", "--public-key", "../../key.pub", *required, "--json", cwd=artifact)
    assert done.code == 0, done.err
    found = done.json["data"]
    assert found["verdict"] == "equivalent"
    assert found["signature"]["status"] == "valid"
    assert found["signature"]["by"] == data["by"]
    assert [(entry["name"], entry["met"]) for entry in found["required"]] == [
        ("equivalence", True),
        ("equivalence[cpu]", True),
        ("signature", True),
    ]


def test_a_forged_artifact(cli: Cli, place: Path, signed: Path) -> None:
    """golden.npz written anew and every digest recomputed: without the signature nobody would know."""
    with numpy.load(signed / "golden.npz") as golden:
        arrays = dict(golden)
    before = folder.digest(signed / "golden.npz")
    numpy.savez(signed / "golden.npz", allow_pickle=False, **arrays)
    cover_up(signed, "golden.npz", before)
    unsigned = cli("verify", signed, "--json")
    assert unsigned.code == 0, unsigned.err
    done = cli("verify", "mlp/artifact_v1", "--public-key", "key.pub", "--require", "equivalence", "--json", cwd=place)
    refused(done, 10, "mlp/artifact_v1 is not what was signed", "golden.npz was changed", "SHA256SUMS was changed")
    data = done.json["data"]
    assert (data["integrity"], data["verdict"]) == ("damaged", "different")
    assert data["required"] == [{"name": "equivalence", "met": False, "reason": "the artifact is damaged"}]


def test_signatures_that_do_not_hold(cli: Cli, place: Path, signed: Path) -> None:
    """Each with a message of its own, before anything else is looked at."""
    write_keys(place, "other")
    (place / "notes.sig").write_text("no signature")
    (place / "changed.sig").write_bytes((place / "mlp/artifact_v1.sig").read_bytes())
    flip(place / "changed.sig", (place / "changed.sig").stat().st_size // 2)
    cases = {
        ("--public-key", "other.pub"): ("mlp/artifact_v1.sig was made with another key than other.pub",),
        ("--public-key", "key.pem"): ("key.pem is a private key",),
        ("--public-key", "notes.sig"): ("notes.sig is not a public key",),
        ("--public-key", "gone.pub"): ("there is no public key at gone.pub",),
        ("--public-key", "key.pub", "--signature", "gone.sig"): ("no signature of mlp/artifact_v1 at gone.sig",),
        ("--public-key", "key.pub", "--signature", "notes.sig"): ("notes.sig is not a signature",),
        ("--public-key", "key.pub", "--signature", "changed.sig"): ("changed.sig was changed after it was made",),
        ("--identity", "a@b.c", "--identity-provider", "https://b.c"): ("was made with a key, not keyless",),
    }
    for arguments, names in cases.items():
        error = fails(cli, place, 10, "verify", "mlp/artifact_v1", *arguments, names=names)
        assert str(place) not in error["message"] + error["hint"]


def test_what_is_not_signed(cli: Cli, place: Path, artifact: Path) -> None:
    key = ("--private-key", "key.pem")
    fails(cli, place, 2, "sign", "mlp/artifact_v1", names=("--private-key FILE or --keyless",))
    fails(cli, place, 2, "sign", "mlp/artifact_v1", *key, "--signature", "mlp/artifact_v1/x.sig", names=("inside",))
    fails(cli, place, 10, "sign", "mlp", *key, names=("mlp is not an artifact",))
    fails(cli, place, 10, "sign", "key.pem", *key, names=("key.pem is not a folder and not a package",))
    fails(
        cli, place, 10, "sign", "mlp/artifact_v1", "--private-key", "key.pub", names=("key.pub is not a private key",)
    )
    (artifact / ".gitattributes").write_text("* filter=evil")
    fails(cli, place, 10, "sign", "mlp/artifact_v1", *key, names=(".gitattributes was added",))


def test_an_existing_signature_is_not_replaced(cli: Cli, place: Path, signed: Path) -> None:
    write_keys(place, "other")
    names = ("mlp/artifact_v1.sig exists already", "another key")
    fails(cli, place, 11, "sign", "mlp/artifact_v1", "--private-key", "other.pem", names=names)
    fails(cli, place, 11, "sign", "mlp/artifact_v1", "--keyless", names=names[:1])


def test_packages(cli: Cli, place: Path, artifact: Path) -> None:
    package = place / "dist" / "mlp-artifact_v1.zip"
    package.parent.mkdir()
    archive.write(package, {f"artifact_v1/{name}": artifact / name for name in folder.listing(artifact)})
    done = cli("sign", "dist/mlp-artifact_v1.zip", "--private-key", "key.pem", "--json", cwd=place)
    assert done.json["data"]["signature"] == "dist/mlp-artifact_v1.sig", done.err
    required = ("--require", "equivalence,signature,bom")
    done = cli("verify", "dist/mlp-artifact_v1.zip", "--public-key", "key.pub", *required, "--json", cwd=place)
    assert done.code == 0, done.err
    assert done.json["data"]["signature"]["files"] == 1
    assert schema.problems(done.json, "report") == []
    trust = signing.Trust(place / "key.pub")
    flip(package, package.stat().st_size - 1)
    with pytest.raises(ArtifactDamaged, match="is not the file that was signed"):
        signing.check(package, trust, Limits(), verbose=False)
    fails(cli, place, 10, "verify", "dist/mlp-artifact_v1.zip", "--public-key", "key.pub", names=("was signed",))
    zips.write(package, {"other/file": b"no artifact"})
    key = ("--private-key", "key.pem", "--signature", "new.sig")
    fails(cli, place, 10, "sign", "dist/mlp-artifact_v1.zip", *key, names=("is refused",))


def test_usage(cli: Cli, place: Path) -> None:
    cases = {
        ("--signature", "x.sig"): "--public-key FILE, or --identity ID",
        ("--identity", "a@b.c"): "go together",
        ("--public-key", "k", "--identity", "a", "--identity-provider", "u"): "not both",
        ("--require", "speed"): "known are equivalence",
        ("--replay", "key.pem", "--require", "bom"): "--require",
    }
    for arguments, words in cases.items():
        fails(cli, place, 2, "verify", "mlp/artifact_v1", *arguments, names=(words,))


def test_requirements_that_are_not_met(cli: Cli, place: Path) -> None:
    required = ("--require", "equivalence,equivalence[cuda],latency[cuda]", "--require", "signature,accuracy")
    error = fails(cli, place, 8, "verify", "mlp/artifact_v1", *required, names=("equivalence[cuda]", "latency[cuda]"))
    assert "artifactctl verify mlp/artifact_v1 --public-key FILE" in error["hint"]
    done = cli("verify", "mlp/artifact_v1", "--json", cwd=place, env={"ARTIFACTCTL_REQUIRE": "signature,equivalence"})
    assert done.code == 8
    assert [(entry["name"], entry["met"]) for entry in done.json["data"]["required"]] == [
        ("signature", False),
        ("equivalence", True),
    ]
    assert "signature" not in done.json["data"]["required"][1]["reason"]


def test_a_proof_beside_the_artifact_counts(cli: Cli, place: Path, signed: Path) -> None:
    """As evidence does: of this artifact, on this provider, whole. A signature does not reach it."""
    assert cli("verify", ".", "--save-evidence", cwd=signed).code == 0
    cells = place / "mlp/artifact_v1.cells"
    cell = json.loads((cells / "cpu.json").read_text()) | {"provider": "cuda"}
    (cells / "cuda.json").write_text(json.dumps(cell))
    words = ("verify", "mlp/artifact_v1", "--require", "equivalence[cuda]")
    done = cli(*words, "--json", cwd=place)
    assert done.code == 0, done.err
    assert "proved after the build" in done.json["data"]["required"][0]["reason"]
    fails(cli, place, 8, *words, "--public-key", "key.pub", names=("where the signature does not reach",))
    (cells / "cuda.json").write_text(json.dumps(cell | {"artifact_sha256": "0" * 64}))
    fails(cli, place, 8, *words, names=("of another artifact",))
    (cells / "cuda.json").write_text("{")
    fails(cli, place, 10, *words, names=("cuda.json cannot be read",))


def test_a_recorded_regression(cli: Cli, place: Path, artifact: Path) -> None:
    """No build writes one; somebody else's might."""
    meta, evidence = artifact / "metadata.yaml", artifact / "evidence/latency.cpu.json"
    before = folder.digest(evidence)
    data = json.loads(evidence.read_text())
    chosen = next(entry["latency"] for entry in data["candidates"] if entry["recipe"] == "source")
    text = meta.read_text()
    assert f"\n  verdict: {chosen['verdict']}\n" in text
    meta.write_text(text.replace(f"\n  verdict: {chosen['verdict']}\n", "\n  verdict: regression\n"))
    chosen["verdict"] = "regression"
    evidence.write_text(json.dumps(data))
    cover_up(artifact, "evidence/latency.cpu.json", before)
    fails(cli, place, 7, "verify", "mlp/artifact_v1", "--require", "latency[cpu]", names=("SLOWER than source",))


def test_keyless_without_an_identity(cli: Cli, place: Path) -> None:
    keyless = ("sign", "mlp/artifact_v1", "--keyless", "--json")
    error = refused(cli(*keyless, cwd=place, env=NO_CI), 9, "there is no CI identity here")
    assert "id-token: write" in error["hint"]
    assert "--private-key FILE" in error["hint"]
    unpermitted = NO_CI | {"GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": ""}
    error = refused(cli(*keyless, cwd=place, env=unpermitted), 9, "the CI identity cannot be used")
    assert not (place / "mlp/artifact_v1.sig").exists()


class Issuer(BaseHTTPRequestHandler):
    """What a CI offers its jobs: a token for whoever has the right to ask."""

    def do_GET(self) -> None:
        now = int(time.time())
        claims = {"aud": "sigstore", "sub": "repo:x/y", "iss": "https://ci.invalid", "iat": now, "exp": now + 300}
        body = json.dumps({"value": jwt.encode(claims, "k" * 32, algorithm="HS256")}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def issuer() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Issuer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/?x=1"
        server.shutdown()


def cut_off(home: Path) -> dict[str, str]:
    """No way to Sigstore, whatever the machine's network is."""
    nowhere = "http://127.0.0.1:9"
    proxies = {key: nowhere for name in ("HTTP_PROXY", "HTTPS_PROXY") for key in (name, name.lower())}
    return proxies | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HOME": str(home)}


def test_keyless_without_the_network(cli: Cli, place: Path, tmp_path: Path, issuer: str) -> None:
    """The identity is there, and Sigstore is not."""
    job = {"GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t", "ACTIONS_ID_TOKEN_REQUEST_URL": issuer}
    home = tmp_path / "home"
    home.mkdir()
    done = cli("sign", "mlp/artifact_v1", "--keyless", "--json", cwd=place, env=NO_CI | job | cut_off(home))
    assert "--private-key" in refused(done, 9, "Sigstore cannot be reached")["hint"]
    signature = place / "mlp/artifact_v1.sig"
    assert not signature.exists()
    envelope = {"payload": base64.b64encode(b"{}").decode(), "signatures": [{"sig": "AAAA"}]}
    signature.write_text(json.dumps({"verificationMaterial": {"certificate": {}}, "dsseEnvelope": envelope}))
    who = ("--identity", "repo:x/y", "--identity-provider", "https://ci.invalid")
    done = cli("verify", "mlp/artifact_v1", *who, "--json", cwd=place, env=cut_off(home))
    refused(done, 9, "Sigstore cannot be reached")
    fails(cli, place, 10, "verify", "mlp/artifact_v1", "--public-key", "key.pub", names=("keyless",))


def test_without_the_extra(place: Path, signed: Path, tmp_path: Path) -> None:
    """An interpreter that has everything but model-signing."""
    import click

    packages, slim = Path(click.__file__).parents[1], tmp_path / "packages"
    slim.mkdir()
    for entry in packages.iterdir():
        if not entry.name.startswith("model_signing"):
            (slim / entry.name).symlink_to(entry)
    command = [sys.executable, "-S", "-m", "artifactctl", "--json"]
    environment = clean_environment(PYTHONPATH=os.pathsep.join((str(ROOT), str(slim))))
    for arguments in (
        ["sign", "mlp/artifact_v1", "--private-key", "key.pem", "--signature", "new.sig"],
        ["verify", "mlp/artifact_v1", "--public-key", "key.pub"],
    ):
        done = subprocess.run(
            command + arguments, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        error = refused(Finished(done.returncode, done.stdout, done.stderr), 9, "not installed: model-signing")
        assert error["hint"] == "pip install 'artifactctl[sign]'"


def test_a_copy_under_another_name_is_still_what_was_signed(place: Path, signed: Path) -> None:
    moved = Path(shutil.copytree(signed, place / "downloads" / "mlp"))
    trust = signing.Trust(place / "key.pub", signature=place / "mlp/artifact_v1.sig")
    assert signing.check(moved, trust, Limits(), verbose=False).status == "valid"
