"""Seven linters over all YAML that GitHub reads: nothing to say about ours, and each sees its share of faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import workflow_rules
from tests.conftest import ROOT, clean_environment, run_cli
from tests.linters import HERE, NAMES, Found, lint, project_files
from tests.programs import NodeTools
from tests.workflow_faults import FAULTS, LETTERS, Fault

pytestmark = pytest.mark.xdist_group("workflows")

PROJECT = project_files(ROOT)
SPECIMEN = project_files(HERE / "specimen")
WORKFLOWS = [path for path in PROJECT if path.startswith(".github/workflows/")]
ACTIONS = [path for path in PROJECT if path.endswith("/action.yml")]
# One job, or two steps, that no linter likes: put into each file to prove that the linter really reads it.
BAD_JOB = """
  planted:
    bogus: 1
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v0
      - run: echo $planted ${{ github.head_ref }}
"""
BAD_STEPS = """
    - uses: actions/checkout@v0
    - run: echo $planted ${{ inputs.planted }}
"""
NOT_FOR_ACTIONS = {"actionlint", "act"}


def _planted() -> dict[str, dict[str, str]]:
    texts = dict.fromkeys(WORKFLOWS, BAD_JOB) | dict.fromkeys(ACTIONS, BAD_STEPS)
    return {
        f"planted-{number}": {**PROJECT, path: PROJECT[path] + bad} for number, (path, bad) in enumerate(texts.items())
    }


@pytest.fixture(scope="module")
def found(node_tools: NodeTools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    place = tmp_path_factory.mktemp("user")
    assert run_cli("init", "--workflow", "--pre-commit", cwd=place).code == 0
    cases = {"project": PROJECT, "init": project_files(place), "specimen": SPECIMEN}
    assert set(cases["init"]) == {".github/workflows/artifact.yml", ".pre-commit-config.yaml"}
    return lint(cases | {fault.name: fault.put_into(SPECIMEN) for fault in FAULTS} | _planted(), node_tools)


@pytest.mark.parametrize("linter", NAMES)
@pytest.mark.parametrize("case", ["project", "init", "specimen"])
def test_nothing_is_wrong(found: dict[str, Found], linter: str, case: str) -> None:
    assert not found[linter][case], "\n".join(found[linter][case])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_seen(found: dict[str, Found], fault: Fault) -> None:
    seen = {linter for linter in NAMES if found[linter][fault.name]}
    assert fault.caught_by
    assert fault.caught_by <= seen, f"not seen by {fault.caught_by - seen}"


def test_the_table_is_large_and_every_linter_has_its_share() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 43
    assert set(LETTERS.values()) == set(NAMES)
    for letter, least in zip("LAZSJXC", (40, 35, 25, 4, 15, 15, 35), strict=True):
        assert sum(letter in fault.letters for fault in FAULTS) >= least, LETTERS[letter]


def test_every_file_of_ours_is_read_by_every_linter(found: dict[str, Found]) -> None:
    for number, path in enumerate([*WORKFLOWS, *ACTIONS]):
        for linter in NAMES:
            if path in ACTIONS and linter in NOT_FOR_ACTIONS:
                continue
            name = path if linter != "act" else f"'{Path(path).name}'"
            assert any(name in finding for finding in found[linter][f"planted-{number}"]), f"{linter} missed {path}"


def _step(workflow: str, name: str) -> str:
    """The script of one step, found by its id."""
    document = workflow_rules.parsed(PROJECT[f".github/workflows/{workflow}"])
    (step,) = [step for step in workflow_rules.steps(document) if step.get("id") == name]
    return str(step["run"])


def _bash(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """As the runner starts `shell: bash`."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=cwd, env=clean_environment(**env), capture_output=True, text=True, encoding="utf-8", check=False
    )


@pytest.mark.parametrize("tag", ["v{}", "{}", "v{}.1", "v", "", "$(touch hurt)", "v{}'; touch hurt; '", 'v{}" -o "x'])
def test_only_the_tag_of_this_version_is_released(tag: str, tmp_path: Path) -> None:
    from artifactctl import __version__

    (tmp_path / "artifactctl").mkdir()
    (tmp_path / "artifactctl" / "__init__.py").write_text((ROOT / "artifactctl" / "__init__.py").read_text())
    done = _bash(_step("release.yml", "version"), tmp_path, TAG=tag.format(__version__))
    assert (done.returncode == 0) == (tag == "v{}"), done.stderr
    assert ("::error" in done.stdout) == (tag != "v{}")
    assert [path.name for path in tmp_path.iterdir()] == ["artifactctl"]


# What GitHub's program does to releases, with a folder for the server.
GH = f"""#!{sys.executable}
import os, pathlib, shutil, sys
server = pathlib.Path(os.environ["SERVER"])
words = [word for word in sys.argv[2:] if not word.startswith("--")]
with (server.parent / "calls").open("a") as calls:
    print(sys.argv[2], file=calls)
if sys.argv[2] == "view":
    if not server.exists():
        sys.exit("release not found")
    print("false" if (server / ".published").exists() else "true")
elif sys.argv[2] == "create":
    assert "--draft" in sys.argv and "--verify-tag" in sys.argv
    server.mkdir()
elif sys.argv[2] == "upload":
    assert not (server / ".published").exists(), "immutable"
    for name in words[2:]:
        if os.environ.get("BREAKS_AT") == os.path.basename(name):
            (server / os.path.basename(name)).write_bytes(b"half")
            sys.exit(0 if os.environ.get("SILENT") else "connection lost")
        shutil.copy(name, server)
elif sys.argv[2] == "download":
    target = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1])
    target.mkdir()
    for path in server.glob("[!.]*"):
        shutil.copy(path, target)
elif sys.argv[2] == "edit":
    assert "--draft=false" in sys.argv
    (server / ".published").touch()
"""


def _release(place: Path, **env: str) -> tuple[int, list[str]]:
    """The last step of release.yml in a fresh job, against the server in `place`."""
    job = place / f"job{len(list(place.glob('job*')))}"
    (job / "dist").mkdir(parents=True)
    (job / "dist" / "x-1-py3-none-any.whl").write_text("wheel")
    (job / "dist" / "x-1.tar.gz").write_text("sdist")
    _bash("cd dist && sha256sum -- * > ../SHA256SUMS", job)
    tools = place / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    (place / "calls").unlink(missing_ok=True)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    done = _bash(_step("release.yml", "github"), job, PATH=path, SERVER=str(place / "server"), TAG="v1", **env)
    return done.returncode, (place / "calls").read_text().split()


def test_a_release_is_a_draft_until_its_files_are_compared(tmp_path: Path) -> None:
    code, calls = _release(tmp_path)
    assert (code, calls) == (0, ["view", "create", "upload", "download", "edit"])
    assert _release(tmp_path) == (0, ["view", "download"])  # published: compared, never written to


@pytest.mark.parametrize("silent", [{}, {"SILENT": "1"}])
def test_a_broken_upload_stays_a_draft_and_a_second_run_mends_it(tmp_path: Path, silent: dict[str, str]) -> None:
    code, calls = _release(tmp_path, BREAKS_AT="x-1.tar.gz", **silent)
    assert code != 0
    assert "edit" not in calls
    assert not (tmp_path / "server" / ".published").exists()
    assert _release(tmp_path) == (0, ["view", "upload", "download", "edit"])


def test_a_published_release_with_other_files_is_an_error(tmp_path: Path) -> None:
    assert _release(tmp_path)[0] == 0
    (tmp_path / "server" / "x-1.tar.gz").write_text("other")
    code, calls = _release(tmp_path)
    assert code != 0
    assert calls == ["view", "download"]
