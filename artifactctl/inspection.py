"""Looking at artifacts and configurations without importing anything heavy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artifactctl import archive, bom, config, folder, genuine, licences, metadata, ortpackage, schema
from artifactctl.errors import ArtifactctlError, ArtifactDamaged, ConfigError, SourceError
from artifactctl.inputs import check_files
from artifactctl.pointers import pointer_in
from artifactctl.versions import parse_folder_name


@dataclass(frozen=True, slots=True)
class Checked:
    path: str
    kind: str  # configuration, artifact, package
    problems: list[ArtifactctlError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def existing_file(path: Path) -> None:
    if not path.is_file():
        raise SourceError(
            f"{path} {'is a folder' if path.is_dir() else 'does not exist'}",
            hint=folder.elsewhere(path) or "Check the path.",
        )
    if pointer := pointer_in(path):
        raise SourceError(f"{path} is {pointer}, not the model", hint=folder.elsewhere(path))


def opened(path: Path, scratch: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of an artifact that is whole, and its metadata; a package is unpacked below `scratch` first."""
    return unpacked(path, scratch) if archive.is_package(path) else (path, whole_artifact(path))


def unpacked(path: Path, scratch: Path) -> tuple[Path, dict[str, Any]]:
    """Of a package; the digests that are taken on the way out are not taken again."""
    target = Path(tempfile.mkdtemp(prefix="package-", dir=scratch))
    found = archive.extract(path, target)
    listed, _ = folder.parse_sums((target / folder.SUMS).read_bytes())
    try:
        return found, whole_artifact(found, {name.removeprefix(f"{found.name}/"): listed[name] for name in listed})
    except ArtifactDamaged as error:
        message = str(error).replace(str(found), f"{path}: {found.name}")
        raise ArtifactDamaged(message, hint=error.hint) from None


def whole_artifact(path: Path, known: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The metadata of an artifact that is whole; everything else is an error. `known`: digests that were just taken."""
    if path.suffix == ortpackage.SUFFIX and path.exists():
        raise _without_answers(path)
    if not path.is_dir():
        what = "is not a folder and not a package" if path.exists() else "does not exist"
        named = "Name an artifact's folder, artifacts/<model>/artifact_vN, or its package, dist/<model>-artifact_vN.zip"
        hint = folder.elsewhere(path) or named
        raise ArtifactDamaged(f"{path} {what}", hint=hint)
    if not (path / folder.SUMS).exists() and not (path / folder.METADATA).exists():
        inside = sorted(entry.name for entry in path.iterdir() if parse_folder_name(entry.name))
        hint = (
            f"Name one of its versions: {path}/{inside[-1]}"
            if inside
            else "Name an artifact's folder: artifacts/<model>/artifact_vN"
        )
        raise ArtifactDamaged(f"{path} is not an artifact: it has no {folder.METADATA} and no {folder.SUMS}", hint=hint)
    damage = folder.damage(path, known)
    if not damage:
        data = metadata.read(path)
        digests, _ = folder.parse_sums((path / folder.SUMS).read_bytes())  # which were all found right
        damage = metadata.disagreements(path, data, digests) + _evidence_problems(path, digests[folder.MODEL])
        damage += bom.problems(path, data) + genuine.problems(path, data)
    if damage:
        more = f" (and {len(damage) - 5} more)" if len(damage) > 5 else ""
        raise ArtifactDamaged(f"{path} is damaged: {'; '.join(damage[:5])}{more}", hint=folder.elsewhere(path))
    return data


def _without_answers(path: Path) -> ArtifactDamaged:
    """An artifact holds what it is checked by; ONNX Runtime's package has no place for that."""
    model, _, version = path.stem.rpartition("-artifact_v")
    artifact = f"artifacts/{model or '<model>'}/artifact_v{version if model else 'N'}"
    again = f"artifactctl package {artifact} --format {ortpackage.SUFFIX[1:]} --output {folder.shown(path.parent)}"
    return ArtifactDamaged(
        f"{path} is a package of ONNX Runtime, which has no digests and no answers to be checked by",
        hint=f"Verify {artifact}. This proves it and says 'unchanged' where the package is of it: {again}",
    )


def _evidence_problems(path: Path, digest: str) -> list[str]:
    """`digest` is the model's: evidence of another one proves nothing about it."""
    found = []
    for file in sorted((path / "evidence").glob("*.json")):
        kind = file.name.split(".")[0]
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            found.append(f"evidence/{file.name} cannot be read ({error})")
            continue
        problems = [problem.message for problem in schema.problems(data, kind)]
        if not problems and data.get("model_sha256", digest) != digest:
            problems = ["it is of another model"]
        found += [f"evidence/{file.name}: {problem}" for problem in problems[:1]]
    return found


def check(paths: list[Path], explicit: Path | None) -> list[Checked]:
    """Configurations and artifacts below the paths; without paths, those of the working directory."""
    if paths:
        found = [item for path in paths for item in _targets(path)]
    else:
        own = config.find(Path(), explicit)
        root = own.parent if own else Path()
        found = ([("configuration", own)] if own else []) + list(_artifacts(root / "artifacts"))
        if not found:
            hint = "Run 'artifactctl init', or name what to check."
            raise ConfigError("there is no artifactctl.yaml and no artifacts/ here", hint=hint)
    return [_check_one(kind, path) for kind, path in found]


def _targets(path: Path) -> Iterator[tuple[str, Path]]:
    if path.name == folder.METADATA:
        yield "artifact", path.parent
    elif parse_folder_name(path.name) or (path / folder.SUMS).exists():
        yield "artifact", path
    elif archive.is_package(path):
        yield "package", path
    elif path.is_dir():
        below = list(_artifacts(path)) + list(_artifacts(path / "artifacts"))
        own = path / config.CONFIG_NAME
        if own.is_file():
            yield "configuration", own
        elif not below:
            raise ConfigError(f"{path} holds no artifactctl.yaml and no artifacts")
        yield from below
    else:
        yield "configuration", path


def _artifacts(root: Path) -> Iterator[tuple[str, Path]]:
    if not root.is_dir():
        return
    homes = [root, *sorted(entry for entry in root.iterdir() if entry.is_dir() and entry.name != folder.WORK)]
    for home in homes:
        for version in folder.versions(home):
            yield "artifact", home / f"artifact_v{version}"


def _check_one(kind: str, path: Path) -> Checked:
    problems: list[ArtifactctlError] = []
    warnings: list[str] = []
    try:
        if kind != "configuration":
            with tempfile.TemporaryDirectory(prefix="artifactctl-") as scratch:
                opened(path, Path(scratch))
        else:
            project = config.load(path)
            for model in project.models.values():
                if warned := licences.warning(model.license):
                    warnings.append(f"{model.name}: {warned}")
                try:
                    check_files(model, project.root)
                except ArtifactctlError as error:
                    problems.append(error)
    except ArtifactctlError as error:
        problems.append(error)
    return Checked(str(path), kind, problems, warnings)
