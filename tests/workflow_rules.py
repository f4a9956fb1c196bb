"""What this project demands of its workflows and actions beyond what linters know: problems(files) names breaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import click
import yaml

from artifactctl.cli import COMMANDS, root

Files = Mapping[str, str]
Node = dict[Any, Any]

# action: the commands whose options and arguments its inputs are named after
ACTION_COMMANDS = {
    "setup": (),
    "build": ("build", "package"),
    "verify": ("verify",),
    "gate": ("matrix",),
    "release": ("release",),
}
# Inputs that no command has, with the reason.
EVERY_ACTION = {
    "directory": "-C has no long name",
    "python-version": "what setup-python is asked for",
}
MORE_INPUTS = {
    "setup": {"provider": "chooses the extra", "extras": "of the package", "runtime": "bring your own ONNX Runtime"},
    "verify": {
        "build": "what the build handed over",
        "model": "one of it",
        "output": "where a package is unpacked",
        "runtime": "bring your own ONNX Runtime",
    },
    "gate": {
        "matrix": "the cells as JSON",
        "build": "what the build handed over",
        "evidence": "where the evidence files are",
    },
    "release": {
        "models": "several at once",
        "build": "what the build handed over",
        "evidence": "where the evidence files are",
        "github-release": "whether it is published on GitHub too",
        "token": "for the push and the GitHub release",
    },
}
SHA_PIN = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$")
USES = re.compile(r"^\s*(?:- )?uses:\s*(\S+)\s*(#.*)?$", re.MULTILINE)
VERSION_COMMENT = re.compile(r"# v\d+\.\d+\.\d+$")
KEPT_CREDENTIALS = re.compile(r"persist-credentials:\s*true\s+# \w+")
MOVING_RUNNER = re.compile(r"\b(?:ubuntu|windows|macos)-latest\b")
REGISTRY = re.compile(r"--(?:extra-)?index-url\b|--registry\b|\bPIP_(?:EXTRA_)?INDEX_URL\b|\brepository-url:")
INPUT = re.compile(r"\binputs\.([\w-]+)")
STEP = re.compile(r"\bsteps\.([\w-]+)")
OUR_OWN = ("./", "$/")


def problems(files: Files) -> list[str]:
    """Every breach in a repository, given as {path: text}."""
    found: list[str] = []
    documents: dict[str, Node] = {}
    for path, text in files.items():
        if not path.endswith((".yml", ".yaml")):
            continue
        try:
            document = parsed(text)
        except yaml.YAMLError as error:
            found.append(f"{path}: not YAML: {error}")
            continue
        found += [f"{path}: {problem}" for problem in _registry(text)]
        if path.endswith("/action.yml"):
            documents[path] = document
            found += [f"{path}: {problem}" for problem in (*_action(path, document, files), *_both(document, text))]
        elif path.startswith(".github/workflows/"):
            documents[path] = document
            found += [f"{path}: {problem}" for problem in (*_workflow(document), *_both(document, text))]
    return found + _same_pins(files) + _local_calls(documents)


@cache
def parsed(text: str) -> Any:
    """What the text says; nobody changes it, so one answer serves all."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def steps(document: Any) -> Iterator[Node]:
    """The steps of a workflow or of a composite action, as far as it has the shape of one."""
    if not isinstance(document, dict):
        return
    lists = [job.get("steps") for job in _jobs(document).values()]
    lists.append(_mapping(document.get("runs")).get("steps"))
    for entries in lists:
        yield from (step for step in entries or () if isinstance(step, dict))


def _jobs(document: Node) -> dict[str, Node]:
    return {name: job for name, job in _mapping(document.get("jobs")).items() if isinstance(job, dict)}


def _mapping(value: Any) -> Node:
    return value if isinstance(value, dict) else {}


def _named(step: Node) -> str:
    return f"step {step.get('name') or step.get('id') or step.get('uses') or str(step.get('run'))[:30]!r}"


def _registry(text: str) -> Iterator[str]:
    if match := REGISTRY.search(text):
        yield f"names the registry by {match[0]}: users have mirrors"


def _both(document: Node, text: str) -> Iterator[str]:
    """Rules for workflows and actions alike."""
    for step in steps(document):
        if "${{" in str(step.get("run", "")):
            yield f"{_named(step)}: an expression in a run block; hand it over in env"
        if "GITHUB_ENV" in str(step.get("run", "")):
            yield f"{_named(step)}: writes to GITHUB_ENV, which every later step obeys; use an output"
        if str(step.get("uses", "")).startswith("actions/checkout@"):
            kept = _mapping(step.get("with")).get("persist-credentials")
            if kept is not False and not (kept is True and KEPT_CREDENTIALS.search(text)):
                yield f"{_named(step)}: persist-credentials: false, or true and why in a comment beside it"
    for uses, comment in USES.findall(text):
        if uses.startswith(OUR_OWN):
            continue
        if not SHA_PIN.match(uses):
            yield f"{uses} is not pinned by a full SHA"
        elif not VERSION_COMMENT.match(comment):
            yield f"{uses} has no comment with its version, such as # v1.2.3"


def _action(path: str, document: Node, files: Files) -> Iterator[str]:
    name = path.split("/")[-2]
    if _mapping(document.get("runs")).get("using") != "composite":
        yield "not a composite action"
    inputs, outputs = _mapping(document.get("inputs")), _mapping(document.get("outputs"))
    for key, entry in inputs.items():
        if not _mapping(entry).get("description"):
            yield f"input {key} has no description"
        if not _mapping(entry).get("required") and "default" not in _mapping(entry):
            yield f"input {key} is neither required nor has a default"
    yield from (f"input {key} is no option of {_commands(name)}" for key in sorted(set(inputs) - known_inputs(name)))
    yield from _uses_of_inputs(document, set(inputs))
    section = _section(files.get("actions/README.md", ""), name)
    for key, entry in outputs.items():
        if not _mapping(entry).get("description"):
            yield f"output {key} has no description"
        if f"`{key}`" not in section:
            yield f"output {key} is not in actions/README.md under '## {name}'"
    for step in steps(document):
        if "run" in step and step.get("shell") != "bash":
            yield f"{_named(step)}: shell is not bash"
        if str(step.get("uses", "")).startswith("./"):
            yield f"{_named(step)}: ./ is the caller's repository here; write $/"


def _uses_of_inputs(document: Node, inputs: set[str]) -> Iterator[str]:
    """Inputs reach programs through env, and other actions through with; a condition may ask for one."""
    used: set[str] = set()
    for step in steps(document):
        for key, value in step.items():
            names = {match[1] for match in INPUT.finditer(str(value))}
            if names and key not in ("env", "with", "if"):
                yield f"{_named(step)}: inputs in {key}; hand them over in env"
            used |= names
    for value in _mapping(document.get("outputs")).values():
        used |= {match[1] for match in INPUT.finditer(str(value))}
    yield from (f"input {key} is not used" for key in sorted(inputs - used))
    yield from (f"there is no input {key}" for key in sorted(used - inputs))
    wanted = {match[1] for match in STEP.finditer(str(document))}
    yield from (f"there is no step {key}" for key in sorted(wanted - {str(step.get("id")) for step in steps(document)}))


def _section(readme: str, name: str) -> str:
    """The lines of actions/README.md below the heading of one action."""
    parts = re.split(r"^## +`?([\w-]+)`?.*$", readme, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(name, "")


def _commands(action: str) -> str:
    return " or ".join(f"'artifactctl {command}'" for command in ACTION_COMMANDS.get(action, ())) or "any command"


@cache
def known_inputs(action: str) -> frozenset[str]:
    """What an input of this action may be called: an option or argument of its commands, or of the short list above."""
    found = set(EVERY_ACTION) | set(MORE_INPUTS.get(action, ()))
    for name in ACTION_COMMANDS.get(action, ()):
        if name in COMMANDS:
            command = root.get_command(click.Context(root), name)
            assert command is not None
            for parameter in command.params:
                found |= {option.removeprefix("--") for option in parameter.opts if option.startswith("--")}
                found.add((parameter.name or "").replace("_", "-"))
    return frozenset(found)


def _workflow(document: Node) -> Iterator[str]:
    triggers = document.get("on", document.get(True))  # YAML 1.1 reads `on` as true
    if "pull_request_target" in (triggers if isinstance(triggers, list | dict) else [triggers]):
        yield "pull_request_target runs a stranger's change with our rights"
    if "permissions" not in document or document["permissions"] not in ({}, {"contents": "read"}):
        yield "top-level permissions are not {} or contents: read; a job that needs more says so itself"
    shell = _mapping(_mapping(document.get("defaults")).get("run")).get("shell")
    for name, job in _jobs(document).items():
        if isinstance(job.get("permissions"), str):
            yield f"job {name}: permissions {job['permissions']} name everything at once"
        if "timeout-minutes" not in job and "uses" not in job:
            yield f"job {name}: no timeout-minutes"
        if "continue-on-error" in job:
            yield f"job {name}: continue-on-error makes red green"
        if MOVING_RUNNER.search(str([job.get("runs-on"), job.get("strategy")])):
            yield f"job {name}: a runner label that moves; name the version"
        for step in steps({"jobs": {name: job}}):
            if "run" in step and step.get("shell", shell) != "bash":
                yield f"job {name}, {_named(step)}: shell is not bash (defaults.run.shell: bash)"
            if isinstance(triggers, dict) and "workflow_call" in triggers and str(step.get("uses")).startswith("./"):
                yield f"job {name}, {_named(step)}: ./ is the caller's repository here; write $/"


def _same_pins(files: Files) -> list[str]:
    pins: dict[str, dict[tuple[str, str], str]] = {}
    for path, text in files.items():
        for uses, comment in USES.findall(text) if path.endswith((".yml", ".yaml")) else ():
            if SHA_PIN.match(uses):
                action, _, sha = uses.partition("@")
                pins.setdefault(action, {}).setdefault((sha, comment), path)
    return [f"{' and '.join(seen.values())}: {action} has two pins" for action, seen in pins.items() if len(seen) > 1]


def _local_calls(documents: Mapping[str, Node]) -> list[str]:
    """A call of one of our own actions gives inputs that it has, and all that it requires."""
    found = []
    for path, document in documents.items():
        for step in steps(document):
            uses = str(step.get("uses", ""))
            if not uses.startswith(OUR_OWN):
                continue
            called = documents.get(f"{uses[2:]}/action.yml")
            if called is None:
                found.append(f"{path}: {uses} does not exist")
                continue
            inputs, given = _mapping(called.get("inputs")), set(_mapping(step.get("with")))
            required = {key for key, entry in inputs.items() if _mapping(entry).get("required")}
            found += [f"{path}: {uses} has no input {key}" for key in sorted(given - set(inputs))]
            found += [f"{path}: {uses} needs {key}" for key in sorted(required - given)]
    return found
