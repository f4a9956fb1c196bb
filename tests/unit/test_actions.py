"""The contract of actions and workflows (tests/workflow_rules.py): ours keep it, and each rule sees its breach."""

from __future__ import annotations

import pytest

from tests import workflow_rules
from tests.conftest import ROOT
from tests.linters import HERE, project_files
from tests.workflow_faults import FAULTS, Fault

SPECIMEN = project_files(HERE / "specimen")
# fault: a word of what the rule says, so that it is the right rule that speaks
SAID = {
    "not-yaml": "not YAML",
    "unknown-shell": "shell is not bash",
    "misspelt-own-input": "has no input providers",
    "missing-own-input": "needs artifact",
    "own-action-not-there": "does not exist",
    "injection-in-workflow": "an expression in a run block",
    "injection-in-action": "an expression in a run block",
    "untrusted-trigger": "pull_request_target",
    "misspelt-action-input": "persist-credentials",
    "kept-credentials": "persist-credentials",
    "pinned-by-tag": "full SHA",
    "pinned-by-short-sha": "full SHA",
    "write-all": "top-level permissions",
    "write-for-all-jobs": "top-level permissions",
    "no-permissions": "top-level permissions",
    "hidden-environment": "GITHUB_ENV",
    "action-unknown-using": "not a composite",
    "action-without-shell": "shell is not bash",
    "action-unknown-input": "there is no input providers",
    "action-unknown-step": "there is no step ran",
    "action-unknown-context": "input provider is not used",
    "action-in-javascript": "not a composite",
    "input-without-description": "input provider has no description",
    "input-without-default": "neither required nor has a default",
    "input-of-no-option": "input device is no option of 'artifactctl verify'",
    "input-not-used": "input provider is not used",
    "input-in-working-directory": "inputs in working-directory",
    "output-without-description": "output digest has no description",
    "output-not-in-readme": "under '## verify'",
    "action-with-pwsh": "shell is not bash",
    "action-calls-caller": "the caller's repository",
    "workflow-calls-caller": "the caller's repository",
    "expression-in-run": "an expression in a run block",
    "pin-without-version": "no comment with its version",
    "two-pins-of-one-action": "two pins",
    "credentials-kept-without-a-word": "persist-credentials",
    "no-timeout": "no timeout-minutes",
    "job-takes-all-permissions": "name everything at once",
    "red-made-green": "makes red green",
    "moving-runner": "a runner label that moves",
    "moving-runner-in-matrix": "a runner label that moves",
    "another-shell": "shell is not bash",
    "names-a-registry": "names the registry",
}


def test_ours_keep_the_contract() -> None:
    assert workflow_rules.problems(project_files(ROOT)) == []
    assert workflow_rules.problems(SPECIMEN) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_right_rule_speaks(fault: Fault) -> None:
    problems = workflow_rules.problems(fault.put_into(SPECIMEN))
    if "C" in fault.letters:
        assert any(SAID[fault.name] in problem for problem in problems), problems
    else:
        assert not problems, "the table does not say so"


def test_credentials_may_be_kept_for_a_reason() -> None:
    path = ".github/workflows/specimen.yml"
    kept = SPECIMEN[path].replace("persist-credentials: false", "persist-credentials: true # the tag is pushed")
    assert workflow_rules.problems({**SPECIMEN, path: kept}) == []


def test_inputs_are_named_after_options_and_arguments() -> None:
    assert {"models", "recipe", "provider", "max-regression", "format"} <= workflow_rules.known_inputs("build")
    assert {"artifact", "samples", "save-evidence"} <= workflow_rules.known_inputs("verify")
    assert "samples" not in workflow_rules.known_inputs("build")
    assert "provider" not in workflow_rules.known_inputs("no-such-action")
