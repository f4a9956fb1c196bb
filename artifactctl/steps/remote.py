"""A measurement on a machine without artifactctl: a bundle goes there, a file of times comes back and is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from artifactctl import folder, schema, zips
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactDamaged, ConfigError, Conflict, NotAvailable, NotProven
from artifactctl.project import Budgets, Latency
from artifactctl.providers import PROVIDERS
from artifactctl.records import Session
from artifactctl.resources import template_text
from artifactctl.steps.bench import Bench, Standard, Subject, judged, noise_warnings, prepare, subject_of
from artifactctl.steps.measure import Terms, report_of
from artifactctl.steps.sides import Side, demand_comparable
from artifactctl.steps.survey import refused, surveyed

HOW = """Two models to be timed against each other on this machine.

1. pip install numpy, and the onnxruntime package for the device (onnxruntime, onnxruntime-gpu, onnxruntime-openvino …)
2. python bench.py
3. Take result.json back, and type: artifactctl bench --import result.json
"""


def export(
    candidate: Side, baseline: Side, latency: Latency, provider: str | None, target: Path, crew: Crew
) -> dict[str, Any]:
    """Both models, the inputs, the scripts; the provider need not be here, and the threads are the other machine's."""
    if target.exists():
        raise Conflict(f"{target} exists already", hint="Choose another name, or delete it.")
    if not target.parent.is_dir():
        raise ConfigError(f"{target.parent} is not a folder", hint="Create it, or choose another place.")
    name = provider or (candidate.metadata["session"]["provider"] if candidate.metadata else "cpu")
    demand_comparable(candidate, baseline, crew, None if provider else name)
    session = Session(name, PROVIDERS[name].execution_provider, 0, options=PROVIDERS[name].options)
    duel, rows = prepare(candidate, baseline, latency, session, crew)
    members: dict[str, Path | bytes] = {"bench.py": template_text("bench.py").encode(), "README.txt": HOW.encode()}
    members["validate.py"] = template_text("validate.py").encode()
    models, files = {}, {}
    for side, path in (("candidate", duel.candidate), ("baseline", duel.baseline)):
        staged = Path(crew.ask("runner", "stage_onnx", source=str(path), folder=str(crew.scratch / side))["path"])
        models[side] = f"{side}/{staged.name}"
        for file in sorted(entry for entry in staged.parent.rglob("*") if entry.is_file()):
            place = f"{side}/{file.relative_to(staged.parent).as_posix()}"
            members[place], files[place] = file, folder.digest(file)
    for row in rows:
        place = f"inputs/{Path(row['inputs']).name}"
        members[place], row["inputs"] = Path(row["inputs"]), place
    about = {
        "candidate": subject_of(candidate).as_dict(),
        "baseline": subject_of(baseline).as_dict(),
        "max_regression": latency.max_regression,
        "confidence": latency.confidence,
        "batches": list(latency.batches),
        "files": files,
    }
    task = duel.task() | {"models": models, "inputs": rows[0]["inputs"], "surveys": rows, "seed": duel.seed}
    members["task.json"] = json.dumps(task | {"about": about}, indent=1, sort_keys=True).encode()
    zips.write(target, members)
    return {"path": folder.shown(target), "sha256": folder.digest(target), "size_bytes": target.stat().st_size}


def read_result(path: Path) -> dict[str, Any]:
    hint = "Run bench.py of the bundle again, and take the file that it writes."
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint=hint) from None
    if found := schema.problems(data, "bench-result"):
        place = ".".join(str(part) for part in found[0].place)
        raise ConfigError(f"{path}: {place or 'top level'}: {found[0].message}", hint=hint)
    result: dict[str, Any] = data
    if result["files"] != result["about"]["files"]:
        raise ArtifactDamaged(f"{path}: the models that ran are not those of the bundle", hint="Unpack it anew there.")
    if not any(entry["times_ns"] for entry in result["rounds"]):
        pair = max((entry["pair_ns"] for entry in result["rounds"]), default=0) / 1e9
        more = f": one takes {pair:.3g} s, and the budget was {result['budget_s']:g} s" if pair else ""
        raise NotProven(f"{path} holds no pairs{more}", hint="Give it more time there: python bench.py --budget S")
    return result


def judge_result(result: dict[str, Any], side: Side | None, latency: Latency, budgets: Budgets, root: Path) -> Bench:
    """By the limits of this project, and the budgets of the machine that it was measured on."""
    about = result["about"]
    subject, against = Subject(**about["candidate"]), Subject(**about["baseline"])
    if side is not None and side.sha256 != subject.sha256:
        message = f"not comparable: the times are of {subject.label} ({subject.sha256[:12]}), not of {side.label}"
        raise NotAvailable(message, hint="Name the artifact that was exported, or export this one.")
    session = Session(**result["settings"]["candidate"])
    terms = Terms(latency.max_regression, latency.confidence, result["budget_s"], against.label)
    sizes = (subject.size_bytes, against.size_bytes)
    report = report_of(terms, session.provider, result["rounds"], result["seconds"], sizes)
    report = surveyed(report, result["surveys"])
    before, after = result["noise"]
    problems = judged(report, None, Standard(latency, budgets, result["machine"], session, root, subject.name))
    warnings = [*noise_warnings(before, after), *refused(result["surveys"], tuple(about["batches"]))]
    return Bench(subject, report, session, result["machine"], (before, after), tuple(warnings), problems)
