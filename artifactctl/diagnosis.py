"""What `doctor` looks at: packages, providers, git, what is missing and the line that installs it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from artifactctl import environment, git, runtimes, upkeep
from artifactctl.errors import NotAvailable
from artifactctl.process import OperationFailed, Worker, WorkerDied
from artifactctl.providers import PROVIDERS
from artifactctl.stores import dvc_store, lfs_store

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


def diagnose(*, store: str, verbose: bool) -> dict[str, Any]:
    """`store`: release.store, whose program must be here."""
    here = environment.describe()
    runtime = _runtime(verbose)
    data: dict[str, Any] = {key: here[key] for key in ("artifactctl", "python", "system", "machine", "cpu", "cores")}
    versions = here["packages"] | environment.package_versions(tuple(NEEDED_TO))
    data["packages"] = [_package(name, versions) for name in ("numpy", "onnx", *NEEDED_TO)]
    found = runtimes.installed()
    data["runtimes"] = sorted((*found.whole, *found.plugins))
    data["providers"] = _providers(runtime["providers"], found)
    data["git"] = git.describe(Path.cwd())
    data["stores"] = _stores(store)
    data["cache"] = upkeep.info()
    data["missing"] = _missing(data, runtime, found)
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


def _providers(available: list[str], found: runtimes.Installed) -> list[dict[str, Any]]:
    """The provider table, as it stands on this machine."""
    rows = []
    for row in PROVIDERS.values():
        why, line = runtimes.why_unavailable(row, available, found) or (None, runtimes.install_line(row, found))
        more = {"runs_on": list(row.runs_on), "emulated": row.emulated, "remark": row.remark}
        rows.append({"name": row.name, "available": why is None, "why": why, "install": line} | more)
    return rows


def _stores(configured: str) -> list[dict[str, Any]]:
    """The programs that keep bytes outside git; one that is not configured is nothing that is missing."""
    here = Path.cwd()
    found = (
        ("lfs", "git-lfs", lfs_store.version, lfs_store.INSTALL),
        ("dvc", "DVC", dvc_store.version, dvc_store.INSTALL),
    )
    return [
        {
            "name": name,
            "version": version(here),
            "configured": store == configured,
            "needed_to": f"release with release.store: {store}",
            "install": install,
        }
        for store, name, version, install in found
    ]


def _missing(data: dict[str, Any], runtime: dict[str, Any], packages: runtimes.Installed) -> list[dict[str, str]]:
    found = [
        {"what": entry["name"], "needed_to": entry["needed_to"], "install": entry["install"]}
        for entry in (*data["packages"], *(row for row in data["stores"] if row["configured"]))
        if entry["version"] is None
    ]
    if packages.collide:
        names, line = " and ".join(packages.whole), runtimes.install_line(PROVIDERS["cpu"], packages)
        found.append(
            {"what": f"only one of {names}: they overwrite one another", "needed_to": "run models", "install": line}
        )
    elif "problem" in runtime and packages.whole:
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
