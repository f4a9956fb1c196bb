"""artifactctl init"""

from __future__ import annotations

from pathlib import Path

import click

from artifactctl.cli.options import Result, Settings, common_options, option

WORKFLOW = Path(".github/workflows/artifact.yml")
PRE_COMMIT = Path(".pre-commit-config.yaml")


@click.command()
@option("--workflow", is_flag=True, help="Also write a GitHub workflow.")
@option("--pre-commit", is_flag=True, help="Also write a pre-commit entry.")
@common_options
@click.pass_obj
def init(settings: Settings, workflow: bool, pre_commit: bool) -> Result:
    """Write artifactctl.yaml for the models found here. Existing files are never changed."""
    from artifactctl.config import CONFIG_NAME
    from artifactctl.resources import template_text

    wanted = {settings.config or Path(CONFIG_NAME): _configuration()}
    if workflow:
        wanted[WORKFLOW] = template_text("workflow.yml")
    if pre_commit:
        wanted[PRE_COMMIT] = template_text("pre-commit.yaml")
    files = []
    for path, text in wanted.items():
        if path.exists():
            files.append({"path": path.as_posix(), "status": "kept"})
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        files.append({"path": path.as_posix(), "status": "written"})
    return Result({"files": files}, _text(files, wanted))


def _text(files: list[dict[str, str]], wanted: dict[Path, str]) -> str:
    lines = []
    for entry in files:
        if entry["status"] == "written":
            lines.append(f"written  {entry['path']}")
            continue
        lines.append(f"kept     {entry['path']} (it exists, and is never changed)")
        if Path(entry["path"]) == PRE_COMMIT and "artifactctl" not in PRE_COMMIT.read_text(encoding="utf-8"):
            lines += ["         add this to it:", wanted[PRE_COMMIT].rstrip()]
    return "\n".join([*lines, "Next: look at the configuration, then type 'artifactctl build'"])


def _configuration() -> str:
    """A configuration of the ONNX files that lie here, or one to be filled in."""
    from artifactctl.resources import template_text
    from artifactctl.versions import model_name_from

    skipped = {"artifacts", "node_modules", "site-packages"}
    found = [
        path
        for path in sorted(Path().rglob("*.onnx"))
        if not any(part.startswith(".") or part in skipped for part in path.parts)
    ][:20]
    models: dict[str, str] = {}
    for path in found:
        name = model_name_from(path.stem)
        models.setdefault(name, path.as_posix())
    if not models:
        models = {"my_model": "models/my_model.onnx"}
    blocks = [f"  {name}:\n    source:\n      onnx: {_quoted(file)}\n" for name, file in models.items()]
    return template_text("artifactctl.yaml").replace("# <models>\n", "".join(blocks))


def _quoted(text: str) -> str:
    plain = text.replace("/", "").replace("_", "").replace("-", "").replace(".", "").isalnum()
    return text if plain else "'" + text.replace("'", "''") + "'"
