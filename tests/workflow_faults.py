"""Faults that are put into the specimen repository of tests/lint/specimen, and the linters that must see each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKFLOW = ".github/workflows/specimen.yml"
CALLED = ".github/workflows/called.yml"
ACTION = "actions/verify/action.yml"
HOOKS = ".pre-commit-hooks.yaml"
README = "actions/README.md"

LETTERS = {
    "L": "languageservice",
    "A": "actionlint",
    "Z": "zizmor",
    "S": "shellcheck",
    "J": "check-jsonschema",
    "X": "act",
    "C": "contract",  # tests/workflow_rules.py
}
CHECKOUT = "actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2"


@dataclass(frozen=True)
class Fault:
    """`old` stands once in the file and becomes `new`; `letters` are the linters that must see it."""

    name: str
    path: str
    letters: str
    old: str
    new: str

    @property
    def caught_by(self) -> set[str]:
        return {LETTERS[letter] for letter in self.letters}

    def put_into(self, files: Mapping[str, str]) -> dict[str, str]:
        text = files[self.path]
        assert text.count(self.old) == 1, f"{self.name}: {self.old!r} stands {text.count(self.old)} times"
        return {**files, self.path: text.replace(self.old, self.new)}


# fmt: off
FAULTS = (
    # the shape of a workflow
    Fault("not-yaml", WORKFLOW, "LAZJXC", "on:\n  push:\n    branches: [main]", "on:\n  push:\n    branches: [main"),
    Fault("unknown-top-key", WORKFLOW, "LAZJX", "concurrency:\n", "concurency:\n"),
    Fault("unknown-job-key", WORKFLOW, "LAJX", "    needs: plan\n", "    need: plan\n"),
    Fault("unknown-step-key", WORKFLOW, "LAZJX", "        run: |\n", "        runs: |\n"),
    Fault("duplicate-key", WORKFLOW, "LAZJX", "    name: plan\n", "    name: plan\n    name: again\n"),
    Fault("duplicate-step-id", CALLED, "LA",
          "      - id: verdict\n",
          "      - id: verdict\n        run: 'true'\n      - id: verdict\n"),
    Fault("no-runs-on", CALLED, "LAZJ", "    runs-on: ubuntu-24.04\n", ""),
    Fault("uses-and-run", WORKFLOW, "LAJX",
          f"      - uses: {CHECKOUT}\n",
          f"      - run: 'true'\n        uses: {CHECKOUT}\n"),
    Fault("unknown-event", WORKFLOW, "LAJX", "  push:\n", "  pushed:\n"),
    Fault("unknown-event-filter", WORKFLOW, "LAJX", "    branches: [main]", "    branch: [main]"),
    Fault("cron-with-six-fields", WORKFLOW, "LA", '"17 4 * * 1"', '"0 17 4 * * 1"'),
    Fault("cron-out-of-range", WORKFLOW, "LA", '"17 4 * * 1"', '"17 25 * * 1"'),
    Fault("unknown-permission", WORKFLOW, "LAJX", "      id-token: write #", "      id-tokens: write #"),
    Fault("unknown-permission-level", WORKFLOW, "LAZJX", "      id-token: write #", "      id-token: wrote #"),
    Fault("timeout-is-text", WORKFLOW, "LAZJX", "    timeout-minutes: 5\n", "    timeout-minutes: five\n"),
    Fault("unknown-input-type", CALLED, "LAZJX", "        type: string\n", "        type: text\n"),
    Fault("default-not-among-options", WORKFLOW, "A", "        default: little\n", "        default: none\n"),
    Fault("unknown-runner", WORKFLOW, "A", "    runs-on: ubuntu-24.04\n", "    runs-on: ubuntu-24.40\n"),
    Fault("unknown-shell", WORKFLOW, "AZC", "    shell: bash\n", "    shell: bahs\n"),
    # the graph of jobs
    Fault("unknown-need", WORKFLOW, "LA", "    needs: plan\n", "    needs: plans\n"),
    Fault("circle-of-needs", WORKFLOW, "LA", "    name: plan\n", "    name: plan\n    needs: call\n"),
    Fault("output-of-unneeded-job", WORKFLOW, "LA", "    needs: [plan, measure]\n", "    needs: measure\n"),
    Fault("unknown-job-output", WORKFLOW, "LA",
          "fromJSON(needs.plan.outputs.cells)",
          "fromJSON(needs.plan.outputs.cell)"),
    Fault("unknown-step-id", WORKFLOW, "LA", "${{ steps.cells.outputs.cells }}", "${{ steps.cell.outputs.cells }}"),
    Fault("output-of-unknown-job", CALLED, "LA",
          "${{ jobs.judge.outputs.verdict }}",
          "${{ jobs.judges.outputs.verdict }}"),
    # expressions
    Fault("unknown-context", WORKFLOW, "LAX", "${{ inputs.level }}", "${{ input.level }}"),
    Fault("unknown-dispatch-input", WORKFLOW, "LA", "${{ inputs.level }}", "${{ inputs.levels }}"),
    Fault("unknown-call-input", CALLED, "LA", "${{ inputs.cells }}", "${{ inputs.cell }}"),
    Fault("unknown-github-field", WORKFLOW, "LA", "if: github.ref ==", "if: github.reff =="),
    Fault("unknown-function", WORKFLOW, "LAX", "fromJSON(", "fromJson5("),
    Fault("too-many-arguments", WORKFLOW, "LAX",
          "fromJSON(needs.plan.outputs.cells)",
          "fromJSON(needs.plan.outputs.cells, 1)"),
    Fault("open-expression", WORKFLOW, "LAX", "${{ matrix.runner }}\n    timeout", "${{ matrix.runner\n    timeout"),
    Fault("double-quotes", WORKFLOW, "LAX",
          "if: github.ref == 'refs/heads/main'",
          'if: github.ref == "refs/heads/main"'),
    Fault("unknown-matrix-key", WORKFLOW, "LA", "name: cell-${{ matrix.cell }}", "name: cell-${{ matrix.cel }}"),
    Fault("context-not-there", WORKFLOW, "LAX",
          "specimen-${{ github.ref }}",
          "specimen-${{ steps.cells.outputs.cells }}"),
    Fault("if-that-is-always-true", WORKFLOW, "LAZ",
          "if: github.ref == 'refs/heads/main'",
          "if: ${{ github.ref == 'refs/heads/main' }} && true"),
    # calls of actions and workflows
    Fault("misspelt-action-input", WORKFLOW, "LZC", "persist-credentials: false", "persist-credential: false"),
    Fault("missing-action-input", WORKFLOW, "L", "          path: out/\n", ""),
    Fault("misspelt-own-input", WORKFLOW, "LC", "          provider: cpu\n", "          providers: cpu\n"),
    Fault("missing-own-input", WORKFLOW, "LC", "          artifact: artifacts/mlp/artifact_v1\n", ""),
    Fault("own-action-not-there", WORKFLOW, "LC", "$/actions/verify", "$/actions/verified"),
    Fault("misspelt-workflow-input", WORKFLOW, "L", "      cells: ${{ needs.plan", "      cell: ${{ needs.plan"),
    Fault("unknown-action", WORKFLOW, "L", "actions/upload-artifact@", "actions/uploads-artifact@"),
    Fault("call-with-steps", WORKFLOW, "LAJX", "    name: call\n", "    name: call\n    steps:\n      - run: 'true'\n"),
    Fault("deprecated-command", WORKFLOW, "A", 'echo "$TITLE at $LEVEL"', 'echo "::set-output name=title::$TITLE"'),
    # what an attacker would use
    Fault("injection-in-workflow", WORKFLOW, "AZC", '"$TITLE at $LEVEL"', '"${{ github.event.head_commit.message }}"'),
    Fault("injection-in-action", ACTION, "ZC", '"$INPUT_ARTIFACT on', '"${{ inputs.artifact }} on'),
    Fault("untrusted-trigger", WORKFLOW, "LZC", "  push:\n    branches: [main]", "  pull_request_target:"),
    Fault("kept-credentials", WORKFLOW, "ZC", "          persist-credentials: false\n", "          fetch-depth: 1\n"),
    Fault("pinned-by-tag", WORKFLOW, "ZC", CHECKOUT, "actions/checkout@v6"),
    Fault("pinned-by-short-sha", WORKFLOW, "LZC", CHECKOUT, "actions/checkout@de0fac2"),
    Fault("write-all", WORKFLOW, "ZC", "permissions:\n  contents: read\nconc", "permissions: write-all\nconc"),
    Fault("write-for-all-jobs", WORKFLOW, "ZC", "  contents: read\nconc", "  contents: write\nconc"),
    Fault("no-permissions", CALLED, "ZC", "permissions: {}\n", ""),
    Fault("secrets-inherit", WORKFLOW, "Z", "    with:\n      cells:", "    secrets: inherit\n    with:\n      cells:"),
    Fault("token-in-plain-sight", WORKFLOW, "AZ",
          "    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n",
          "    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n    container:\n"
          "      image: x@sha256:" + "0" * 64 + "\n      credentials: {username: me, password: secret}\n"),
    Fault("old-commands-allowed", WORKFLOW, "Z",
          "          LEVEL:",
          "          ACTIONS_ALLOW_UNSECURE_COMMANDS: true\n          LEVEL:"),
    Fault("all-secrets", WORKFLOW, "Z", "${{ inputs.level }}", "${{ toJSON(secrets) }}"),
    Fault("hidden-environment", WORKFLOW, "C", '"cells=[1, 2]" >> "$GITHUB_OUTPUT"', '"$TITLE" >> "$GITHUB_ENV"'),
    # shell
    Fault("unquoted-variable", WORKFLOW, "S", 'echo "$TITLE at $LEVEL"', "rm -r $TITLE"),
    Fault("open-quote", CALLED, "S", 'test -n "$CELLS"', 'test -n "$CELLS'),
    Fault("misspelt-variable", CALLED, "S", 'test -n "$CELLS"', 'cells=1; test -n "$cels"'),
    Fault("shell-in-action", ACTION, "S", 'echo "$INPUT_ARTIFACT on', 'echo $INPUT_ARTIFACT "on'),
    # the shape of an action
    Fault("action-unknown-key", ACTION, "LJ", "description: A small", "descriptions: A small"),
    Fault("action-unknown-using", ACTION, "LJC", "  using: composite\n", "  using: composit\n"),
    Fault("action-without-shell", ACTION, "LZJC", "      shell: bash\n", ""),
    Fault("action-unknown-input", ACTION, "C", "${{ inputs.provider }}", "${{ inputs.providers }}"),
    Fault("action-unknown-step", ACTION, "C", "${{ steps.run.outputs", "${{ steps.ran.outputs"),
    Fault("action-unknown-context", ACTION, "LC", "${{ inputs.provider }}", "${{ secrets.provider }}"),
    Fault("hook-without-entry", HOOKS, "Z", "  entry: measure\n", ""),
    # our own rules
    Fault("action-in-javascript", ACTION, "LJC", "  using: composite\n", "  using: node24\n  main: index.js\n"),
    Fault("input-without-description", ACTION, "JC", "    description: where it runs\n", ""),
    Fault("input-without-default", ACTION, "C", "    default: cpu\n", "    required: false\n"),
    Fault("input-of-no-option", ACTION, "LC",
          "  provider:\n    description: where it runs\n    default: cpu\n",
          "  device:\n    description: where it runs\n    default: cpu\n"),
    Fault("input-not-used", ACTION, "C", "        INPUT_PROVIDER: ${{ inputs.provider }}\n", ""),
    Fault("input-in-working-directory", ACTION, "C",
          "      shell: bash\n",
          "      shell: bash\n      working-directory: ${{ inputs.artifact }}\n"),
    Fault("output-without-description", ACTION, "JC", "    description: the digest of what was measured\n", ""),
    Fault("output-not-in-readme", README, "C", "`digest`", "`sum`"),
    Fault("action-with-pwsh", ACTION, "C", "      shell: bash\n", "      shell: pwsh\n"),
    Fault("action-calls-caller", ACTION, "ZC", "    - id: run\n", "    - uses: ./actions/setup\n    - id: run\n"),
    Fault("workflow-calls-caller", CALLED, "ZC",
          "      - id: verdict\n",
          "      - uses: ./actions/setup\n      - id: verdict\n"),
    Fault("expression-in-run", WORKFLOW, "ZC", 'echo "$TITLE at $LEVEL"', 'echo "$TITLE at ${{ github.run_id }}"'),
    Fault("pin-without-version", WORKFLOW, "C", CHECKOUT, CHECKOUT.split(maxsplit=1)[0]),
    Fault("two-pins-of-one-action", CALLED, "C",
          "      - id: verdict\n",
          "      - uses: actions/checkout@" + "0" * 40 + " # v6.0.1\n        with:\n"
          "          persist-credentials: false\n      - id: verdict\n"),
    Fault("credentials-kept-without-a-word", WORKFLOW, "ZC", "persist-credentials: false", "persist-credentials: true"),
    Fault("no-timeout", CALLED, "C", "    timeout-minutes: 5\n", ""),
    Fault("job-takes-all-permissions", WORKFLOW, "ZC",
          "    permissions:\n      contents: read\n      id-token: write # the identity that signs\n",
          "    permissions: read-all\n"),
    Fault("red-made-green", CALLED, "C",
          "    timeout-minutes: 5\n",
          "    timeout-minutes: 5\n    continue-on-error: true\n"),
    Fault("moving-runner", CALLED, "C", "ubuntu-24.04", "ubuntu-latest"),
    Fault("moving-runner-in-matrix", WORKFLOW, "C", "windows-2025", "windows-latest"),
    Fault("another-shell", WORKFLOW, "C", "defaults:\n  run:\n    shell: bash\n", ""),
    Fault("names-a-registry", CALLED, "C",
          'test -n "$CELLS"',
          "pip install --index-url https://packages.example/simple x"),
)
# fmt: on
