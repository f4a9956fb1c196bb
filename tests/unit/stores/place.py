from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from artifactctl import folder, stores

FILES = {
    "model_opt.onnx": bytes(range(256)) * 40,
    "golden.npz": b"PK\x03\x04" + bytes(500),
    "metadata.yaml": b"model_name: m\r\nversion: 1\n",  # a line end that git would like to change
    "validate.py": b"print()\n",
    "README.md": "Grüße\n".encode(),
    "evidence/equivalence.json": b"{}\n",
    ".dot": b"",
    "odd name é.txt": b"odd\n",
}


@dataclass(frozen=True)
class Place:
    root: Path
    tmp: Path

    def run(self, *words: str | Path) -> str:
        done = subprocess.run(words, cwd=self.root, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def git(self, *words: str | Path) -> str:
        return self.run("git", *words)

    def artifact(self, version: int = 1, **changes: bytes) -> Path:
        """A whole artifact of small files; `changes` by the stem of a file."""
        path = self.root / "artifacts" / "m" / f"artifact_v{version}"
        for name, content in FILES.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(changes.get(Path(name).stem, content))
        folder.write_sums(path)
        return path

    def release(self, store: stores.Store, artifact: Path) -> str:
        """Tracked, committed and tagged, as a release does it; the commit."""
        self.git("add", "--", *store.track(self.root, artifact))
        self.git("commit", "-q", "-m", "release")
        self.git("tag", "-a", "-m", "release", f"m/{artifact.name}")
        return self.git("rev-parse", "HEAD")

    def publish(self) -> None:
        """To a bare repository that `clone` clones."""
        if not (self.tmp / "bare.git").exists():
            self.git("init", "-q", "--bare", self.tmp / "bare.git")
            self.git("remote", "add", "origin", (self.tmp / "bare.git").as_uri())

    def clone(self, name: str = "clone") -> Place:
        self.git("push", "-q", "--tags", "origin", "HEAD")
        self.git("clone", "-q", (self.tmp / "bare.git").as_uri(), self.tmp / name)
        return replace(self, root=self.tmp / name)


def content(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in folder.listing(path)}


def kept_aside(artifact: Path) -> dict[str, bytes]:
    """What an artifact held; its folder is removed, as in a clone that does not have it."""
    found = content(artifact)
    shutil.rmtree(artifact)
    return found
