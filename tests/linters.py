"""Linters over many small repositories at once: each is started once for all of them, where it can be.

A *case* is a repository as {path: text}. Every linter answers {case: [finding, …]}; a file that it could not read is a
finding, and a linter that fell over raises.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from tests import workflow_rules
from tests.programs import NodeTools

Files = Mapping[str, str]
Cases = Mapping[str, Files]
Found = dict[str, list[str]]

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests" / "lint"
PATTERNS = (".github/workflows/*.yml", "actions/*/action.yml", ".pre-commit-*.yaml", "actions/README.md")
AS_THE_RUNNER = "set -eo pipefail\n"  # what `shell: bash` means there
NAMES = ("languageservice", "actionlint", "zizmor", "shellcheck", "check-jsonschema", "act", "contract")


def project_files(root: Path) -> dict[str, str]:
    """What there is to lint in a repository, and the README that actions must stand in."""
    paths = [path for pattern in PATTERNS for path in sorted(root.glob(pattern))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def lint(cases: Cases, node: NodeTools) -> dict[str, Found]:
    """Every linter over every case."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for name, files in cases.items():
            for path, text in files.items():
                target = root / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
        with ThreadPoolExecutor(1) as pool:
            nodes = pool.submit(_node, cases, node)
            found = {"zizmor": _zizmor(cases, root), "check-jsonschema": _check_jsonschema(cases, root)}
            found |= {"shellcheck": _shellcheck(cases, root), "act": _act(cases, root)}
            found |= nodes.result()
    found["contract"] = {name: workflow_rules.problems(files) for name, files in cases.items()}
    assert set(found) == set(NAMES)
    return found


def _run(*command: str | Path, cwd: Path, codes: tuple[int, ...], stdin: str = "") -> subprocess.CompletedProcess[str]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "GH_", "ZIZMOR_", "ACT_"))
    }
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, encoding="utf-8", env=kept, check=False
    )
    assert done.returncode in codes, f"{Path(command[0]).name} ended with {done.returncode}:\n{done.stderr[-2000:]}"
    return done


def _beside_python(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _split(path: str) -> tuple[str, str]:
    """case, file: `./case/.github/workflows/x.yml`."""
    case, _, file = path.removeprefix("./").partition("/")
    return case, file


def _node(cases: Cases, node: NodeTools) -> dict[str, Found]:
    actions = json.loads((HERE / "known_actions.json").read_text(encoding="utf-8"))
    asked = json.dumps({"cases": cases, "actions": actions, "ours": project_files(ROOT)})
    quick = "--liftoff-only"  # compiling WebAssembly well takes longer than all linting
    done = _run(node.node, quick, HERE / "lint.mjs", node.place, cwd=node.place, codes=(0,), stdin=asked)
    answer: dict[str, Found] = json.loads(done.stdout)
    return answer


def _zizmor(cases: Cases, root: Path) -> Found:
    options = ("--offline", "--no-config", "--no-progress", "--persona=auditor", "--collect=all", "--no-exit-codes")
    done = _run(_beside_python("zizmor"), *options, "--format=json", "--color=never", ".", cwd=root, codes=(0,))
    found: Found = {name: [] for name in cases}
    for finding in json.loads(done.stdout):
        where = next(place for place in finding["locations"] if place["symbolic"]["kind"] == "Primary")
        key = where["symbolic"]["key"]["Local"]
        case, file = _split(key.get("given_path") or key["verbatim_path"])
        found[case].append(f"{file}:{where['concrete']['location']['start_point']['row'] + 1}: {finding['ident']}")
    audited = {path.removeprefix("./") for path in re.findall(r"completed (\S+)", done.stderr)}
    for case, files in cases.items():
        found[case] += [
            f"{file}: it cannot be read" for file in files if _linted(file) and f"{case}/{file}" not in audited
        ]
    return found


def _linted(file: str) -> bool:
    return file.endswith((".yml", ".yaml"))


def _shellcheck(cases: Cases, root: Path) -> Found:
    """Every `run:` block; an expression in one would be replaced before bash sees it, so a word stands for it."""
    found: Found = {name: [] for name in cases}
    users: dict[str, list[tuple[str, str]]] = {}
    for case, files in cases.items():
        for file, text in files.items():
            for number, block in enumerate(_run_blocks(text) if _linted(file) else ()):
                script = AS_THE_RUNNER + re.sub(r"\$\{\{.*?\}\}", "word", block, flags=re.DOTALL)
                users.setdefault(script, []).append((case, f"{file}, run block {number + 1}"))
    scripts = root / "scripts"
    scripts.mkdir()
    names = {f"{number}.sh": script for number, script in enumerate(users)}
    for name, script in names.items():
        (scripts / name).write_text(script, encoding="utf-8")
    if names:
        done = _run(
            _beside_python("shellcheck"), "--shell=bash", "--norc", "-f", "json", *names, cwd=scripts, codes=(0, 1)
        )
        for finding in json.loads(done.stdout):
            for case, where in users[names[finding["file"]]]:
                found[case].append(f"{where}, line {finding['line'] - 1}: SC{finding['code']} {finding['message']}")
    return found


def _run_blocks(text: str) -> list[str]:
    try:
        document = workflow_rules.parsed(text)
    except yaml.YAMLError:
        return []  # the other linters say so
    return [step["run"] for step in workflow_rules.steps(document) if isinstance(step.get("run"), str)]


def _check_jsonschema(cases: Cases, root: Path) -> Found:
    found: Found = {name: [] for name in cases}
    for schema, ending in (("github-workflows", "workflows/"), ("github-actions", "action.yml")):
        users: dict[str, list[tuple[str, str]]] = {}
        for case, files in cases.items():
            for file, text in files.items():
                if ending in file and _linted(file):
                    users.setdefault(text, []).append((case, file))
        paths = {f"{case}/{file}": entries for entries in users.values() for case, file in entries[:1]}
        if not paths:
            continue
        command = (_beside_python("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", "-o", "json")
        answer = json.loads(_run(*command, *paths, cwd=root, codes=(0, 1)).stdout)
        for error in (*answer.get("errors", ()), *answer.get("parse_errors", ())):
            for case, file in paths[error["filename"]]:
                found[case].append(f"{file}: {error.get('path', '')} {error['message']}")
    return found


def _act(cases: Cases, root: Path) -> Found:
    """act reads one folder of workflows, and stops at its first fault."""

    def validate(case: str) -> list[str]:
        folder = root / case / ".github" / "workflows"
        if not folder.is_dir():
            return []
        for path in folder.iterdir():  # act does not know the form of 2026 for actions of the workflow's repository
            path.write_text(path.read_text(encoding="utf-8").replace("uses: $/", "uses: ./"), encoding="utf-8")
        done = _run(_beside_python("act"), "--validate", "--strict", "-W", folder, cwd=root / case, codes=(0, 1))
        return [] if done.returncode == 0 else [line for line in done.stderr.splitlines() if line.startswith("Error")]

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(cases, pool.map(validate, cases), strict=True))
