"""What `doctor` looks at: packages, providers, git, what is missing and the line that installs it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from artifactctl import environment, git
from artifactctl.errors import NotAvailable
from artifactctl.process import OperationFailed, Worker, WorkerDied
from artifactctl.providers import PROVIDERS

NEEDED_TO = {
    "onnxruntime": ("verify", "cpu"),
    "olive-ai": ("build", "build"),
    "torch": ("build from PyTorch", "build"),
    "onnxoptimizer": ("build", "build"),
    "onnxscript": ("build from PyTorch", "build"),
    "safetensors": ("read .safetensors weights", "build"),
    "model-signing": ("sign", "sign"),
    "pyOpenSSL": ("sign", "sign"),
}


def diagnose(*, verbose: bool) -> dict[str, Any]:
    here = environment.describe()
    runtime = _runtime(verbose)
    data: dict[str, Any] = {key: here[key] for key in ("artifactctl", "python", "system", "machine", "cpu", "cores")}
    versions = here["packages"] | environment.package_versions(tuple(NEEDED_TO))
    data["packages"] = [_package(name, versions) for name in ("numpy", "onnx", *NEEDED_TO)]
    data["runtimes"] = sorted(name for name in here["packages"] if name.startswith("onnxruntime"))
    data["providers"] = _providers(runtime["providers"])
    data["git"] = git.describe(Path.cwd())
    data["missing"] = _missing(data, runtime)
    return data


def _runtime(verbose: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch, Worker("doctor", Path(scratch), verbose=verbose) as worker:
        try:
            found: dict[str, Any] = worker.call("describe_runtime", timeout_s=120)
        except (NotAvailable, WorkerDied, OperationFailed) as error:
            return {"providers": [], "problem": str(error)}
    return found


def _package(name: str, versions: dict[str, str]) -> dict[str, Any]:
    found = versions.get(name)
    if name == "onnxruntime" and found is None:
        found = next((f"{version} ({other})" for other, version in versions.items() if other.startswith(name)), None)
    purpose, extra = NEEDED_TO.get(name, ("everything", ""))
    return {
        "name": name,
        "version": found,
        "needed_to": purpose,
        "install": f"pip install 'artifactctl[{extra}]'" if extra else f"pip install {name}",
    }


def _providers(available: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "available": row.execution_provider in available,
            "install": row.install,
            "remark": row.remark,
        }
        for row in PROVIDERS.values()
    ]


def _missing(data: dict[str, Any], runtime: dict[str, Any]) -> list[dict[str, str]]:
    found = [
        {"what": entry["name"], "needed_to": entry["needed_to"], "install": entry["install"]}
        for entry in data["packages"]
        if entry["version"] is None
    ]
    whole = [name for name in data["runtimes"] if name not in ("onnxruntime-ep-openvino", "onnxruntime-qnn")]
    if len(whole) > 1:
        names = " and ".join(whole)
        line = f"pip uninstall -y {' '.join(data['runtimes'])} && pip install 'artifactctl[cpu]'"
        found.append(
            {"what": f"only one of {names}: they overwrite one another", "needed_to": "run models", "install": line}
        )
    elif "problem" in runtime and whole:
        found.append(
            {
                "what": runtime["problem"],
                "needed_to": "run models",
                "install": "pip install --force-reinstall 'artifactctl[cpu]'",
            }
        )
    if not data["git"]["version"]:
        found.append({"what": "git", "needed_to": "release", "install": "install git with your system's packages"})
    return found
