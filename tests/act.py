"""GitHub's runner, really run: `act` in host mode, on a consumer repository that is made on the fly."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

REPOSITORY, REF = "artifactctl/artifactctl", "0123456789abcdef0123456789abcdef01234567"
RUNNER = ROOT / "tests" / "runner"
LABELS = ("ubuntu-24.04",)
_USES = re.compile(r"uses: ([\w.-]+/[\w.-]+)@([0-9a-f]{40})")


def installer(root: Path) -> Any:
    """actions/setup/install.py of a checkout, as a module: what it installs, and under which key it is found again."""
    spec = importlib.util.spec_from_file_location("install", root / "actions/setup/install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Ran:
    """What act said, by job and by step."""

    code: int
    lines: list[dict[str, Any]]
    raw: str
    summaries: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        told = [line["content"] for line in self.lines if line.get("command") == "summary"]
        self.summaries = list(dict.fromkeys(told))  # act tells it for a step, and for the action around it

    @property
    def jobs(self) -> dict[str, str]:
        """The result of every job that ran, by its name as a reader sees it.

        act gives all cells of a matrix the result of the worst: a cell that says failure without a step that failed is
        a success.
        """
        found, failed = {}, set()
        for line in self.lines:
            name = line.get("job", "").split("/", 1)[-1].strip()
            if line.get("stepResult") == "failure":
                failed.add(name)
            if "jobResult" in line:
                found[name] = line["jobResult"]
        return {name: "success" if _is_cell(name) and name not in failed else found[name] for name in found}

    @property
    def annotations(self) -> list[dict[str, Any]]:
        return [
            {**line.get("kvPairs", {}), "message": line["arg"].replace("%0A", "\n").replace("%25", "%")}
            for line in self.lines
            if line.get("command") == "error"
        ]

    @property
    def page(self) -> str:
        return "\n".join(self.summaries)

    @property
    def log(self) -> str:
        return "".join(f"{line.get('job', '')}: {line['msg'].rstrip()}\n" for line in self.lines if line.get("msg"))


def _is_cell(name: str) -> bool:
    return "verify " in name


class Runner:
    """A copy of what is shipped, small programs in place of GitHub's own actions, and environments that are kept."""

    def __init__(self, home: Path, act: Path, environments: Path) -> None:
        self.home, self.act, self.environments = home, act, environments
        self.shipped = home / "shipped"
        self.shipped.mkdir(parents=True)
        for name in ("actions", *installer(ROOT).PARTS):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.shipped / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, self.shipped / name)
        self.actions = self._third_party()
        workflow = (ROOT / ".github/workflows/artifact.yml").read_text(encoding="utf-8")
        place = self.shipped / ".github/workflows/artifact.yml"
        place.parent.mkdir(parents=True)
        place.write_text(workflow.replace("uses: $/actions/", f"uses: {REPOSITORY}/actions/"), encoding="utf-8")
        text = place.read_text(encoding="utf-8")
        text = re.sub(rf"(uses: {REPOSITORY}/actions/\w+)$", rf"\1@{REF}", text, flags=re.MULTILINE)
        place.write_text(text, encoding="utf-8")

    def _third_party(self) -> dict[str, str]:
        """Every pinned action that our YAML uses; one without a stand-in fails here, not in silence."""
        found: dict[str, str] = {}
        for path in (*ROOT.glob("actions/*/action.yml"), ROOT / ".github/workflows/artifact.yml"):
            for name, sha in _USES.findall(path.read_text(encoding="utf-8")):
                if name != "actions/checkout":  # act has its own
                    found[f"{name}@{sha}"] = str(RUNNER / name.rpartition("/")[2])
        for folder in found.values():
            assert Path(folder, "action.yml").is_file(), f"{folder} is missing"
        return found

    def run(
        self,
        consumer: Path,
        event: str = "push",
        payload: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        workflow: str = ".github/workflows/artifact.yml",
    ) -> Ran:
        store = self.home / "store" / consumer.name
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir(parents=True)
        words = [str(self.act), event, "--json", "--rm", "--container-daemon-socket", "-", "--no-cache-server"]
        words += ["--action-cache-path", str(self.home / "cache"), "-W", workflow]
        for label in LABELS:
            words += ["-P", f"{label}=-self-hosted"]
        words += ["--local-repository", f"{REPOSITORY}@{REF}={self.shipped}", "-s", "GITHUB_TOKEN=of-the-test"]
        for name, folder in self.actions.items():
            words += ["--local-repository", f"{name}={folder}"]
        if payload is not None:
            file = self.home / "event.json"
            file.write_text(json.dumps(payload), encoding="utf-8")
            words += ["-e", str(file)]
        for name, value in (env or {}).items():
            words += ["--env", f"{name}={value}"]
        done = subprocess.run(
            words, cwd=consumer, env=self._environment(store), capture_output=True, text=True, check=False
        )
        lines = []
        for line in done.stdout.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                lines.append({"msg": line})
        return Ran(done.returncode, lines, done.stdout + done.stderr)

    def _environment(self, store: Path) -> dict[str, str]:
        """A small one: act hands the host's on to every step."""
        home = self.home / "user"
        home.mkdir(exist_ok=True)
        programs = self.home / "bin"
        if not programs.exists():
            programs.mkdir()
            for name in ("python", "python3"):
                (programs / name).symlink_to(Path(sys.executable))
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        return kept | {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(home),
            "ACTIONS_STORE": str(store),
            "ARTIFACTCTL_ENVIRONMENTS": str(self.environments),
            "GIT_PAGER": "cat",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def git(place: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=place, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def consumer(place: Path, configuration: Mapping[str, Any], files: Mapping[str, Path], workflow: str) -> Path:
    """A repository with a bare remote, one commit, and the workflow that `init --workflow` would write."""
    place.mkdir(parents=True)
    bare = place.with_name(f"{place.name}.git")
    git(place, "init", "--quiet", "--bare", "-b", "main", str(bare))
    git(place, "init", "--quiet", "-b", "main")
    git(place, "remote", "add", "origin", f"file://{bare}")
    (place / "artifactctl.yaml").write_text(yaml.safe_dump(dict(configuration), sort_keys=False), encoding="utf-8")
    (place / ".github/workflows").mkdir(parents=True)
    (place / ".github/workflows/artifact.yml").write_text(workflow, encoding="utf-8")
    (place / ".gitignore").write_text("dist/\nartifacts/.work/\n", encoding="utf-8")
    for name, source in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place / name)
    git(place, "add", "-A")
    git(place, "commit", "--quiet", "-m", "models")
    git(place, "push", "--quiet", "origin", "main")
    return place
