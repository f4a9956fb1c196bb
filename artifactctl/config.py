"""artifactctl.yaml -> Project. A configuration is optional: a file alone is a project too."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactctl import __version__, folder, recipes, releases, schema, yamlfile
from artifactctl.errors import ConfigError, SourceError, perhaps
from artifactctl.project import (
    SEARCH_S,
    Bound,
    Budgets,
    Data,
    Equivalence,
    InputSpec,
    Latency,
    ModelConfig,
    OwnTerms,
    Project,
    Release,
    Source,
)
from artifactctl.resources import schema_path
from artifactctl.versions import is_model_name, model_name_from

CONFIG_NAME = "artifactctl.yaml"
SOURCE_KINDS = ("onnx", "torch", "torchscript", "exported_program")
_BY_SUFFIX = {".onnx": "onnx", ".pt2": "exported_program"}


def find(directory: Path, explicit: Path | None) -> Path | None:
    if explicit is not None:
        return explicit
    path = directory / CONFIG_NAME
    return path if path.is_file() else None


def load(path: Path, *, remember: bool = False) -> Project:
    """With `remember`, a text that passed before is not checked again: the schema library takes long to load."""
    document = yamlfile.read(path)
    if document.data is None:
        hint = "Run 'artifactctl init' in an empty folder to see a filled one."
        raise ConfigError(f"{document.name} is empty", hint=hint)
    memo = path.resolve().parent / "artifacts" / folder.WORK / "valid-config"
    mark = hashlib.sha256(path.read_bytes() + schema_path("config").read_bytes() + __version__.encode()).hexdigest()
    if not (remember and memo.is_file() and memo.read_text(encoding="utf-8") == mark):
        _demand_valid(document)
        if remember and memo.parent.is_dir():
            memo.write_text(mark, encoding="utf-8")
    models = {name: _model(name, entry) for name, entry in document.data["models"].items()}
    return Project(path.resolve().parent, models, path, Release(**(document.data.get("release") or {})))


def _demand_valid(document: yamlfile.Document) -> None:
    found = schema.problems(document.data, "config") or _rule_problems(document.data)
    if found:
        raise ConfigError("\n".join(f"{document.where(item.place)}: {item.message}" for item in found))


def _rule_problems(data: Mapping[str, Any]) -> list[schema.Problem]:
    """What a schema cannot say."""
    found = []
    for name, entry in data["models"].items():
        place: tuple[str | int, ...] = ("models", name)
        if not is_model_name(name):
            found.append(schema.Problem(place, f"{name!r} cannot be a model's name: it is a folder and a git tag"))
        found += _source_problems(entry["source"], (*place, "source"))
        measures = entry.get("equivalence") or {}
        labelled = bool((entry.get("data") or {}).get("labels"))
        for where, bound in [
            ((), measures),
            *((("outputs", key), value) for key, value in (measures.get("outputs") or {}).items()),
        ]:
            at = (*place, "equivalence", *where)
            others = [key for key in ("min_cosine", "min_top1", "max_accuracy_drop") if bound.get(key) is not None]
            if bound.get("max_abs", 1) is None and not others:
                found.append(
                    schema.Problem(
                        at, "max_abs is null, so another measure is needed: min_cosine, min_top1 or max_accuracy_drop"
                    )
                )
            if "max_accuracy_drop" in others and (not labelled or where):
                why = "is for the whole model, not for one output" if where else "needs data.samples and data.labels"
                found.append(schema.Problem((*at, "max_accuracy_drop"), f"max_accuracy_drop {why}"))
        found += _provider_problems(entry, (*place, "providers"))
        found += _runtime_problems(
            (entry.get("optimize") or {}).get("min_runtime"), (*place, "optimize", "min_runtime")
        )
        if labelled and not entry["data"].get("samples"):
            found.append(schema.Problem((*place, "data", "labels"), "labels need samples: add data.samples"))
    return found


def _runtime_problems(promised: str | None, place: tuple[str | int, ...]) -> list[schema.Problem]:
    if promised is None:
        return []
    oldest = releases.table()[0].version
    if releases.number(promised) >= releases.number(oldest):
        return []
    return [schema.Problem(place, f"{promised} is older than {oldest}, the oldest ONNX Runtime that is known here")]


def _provider_problems(entry: Mapping[str, Any], place: tuple[str | int, ...]) -> list[schema.Problem]:
    """A provider's own measure may replace the model's, but must leave one."""
    found = []
    for name, own in _named_providers(entry).items():
        if "max_abs" in own and own["max_abs"] is None and not _own_bound(entry, own).describe():
            message = "max_abs is null, so another measure is needed: min_cosine or min_top1"
            found.append(schema.Problem((*place, name), message))
    return found


def _source_problems(source: Mapping[str, Any], place: tuple[str | int, ...]) -> list[schema.Problem]:
    kinds = [kind for kind in SOURCE_KINDS if kind in source]
    if len(kinds) != 1:
        which = f"names {len(kinds)} sources ({', '.join(kinds)})" if kinds else "names no source"
        return [schema.Problem(place, f"{which}; exactly one of {', '.join(SOURCE_KINDS)} is needed")]
    kind, found = kinds[0], []
    if "weights" in source and kind != "torch":
        found.append(schema.Problem((*place, "weights"), f"weights go with torch, not with {kind}"))
    if "opset" in source and kind == "onnx":
        found.append(schema.Problem((*place, "opset"), "an ONNX file has its own opset; remove this key"))
    if kind in ("torch", "torchscript") and not source.get("inputs"):
        found.append(schema.Problem(place, f"{kind} needs inputs: {{NAME: {{shape: [batch, …], dtype: float32}}}}"))
    for name, entry in (source.get("inputs") or {}).items():
        at = (*place, "inputs", name)
        if kind in ("torch", "torchscript") and "shape" not in entry:
            found.append(schema.Problem(at, "key 'shape' is missing"))
        if "range" in entry and entry["range"][0] > entry["range"][1]:
            found.append(schema.Problem((*at, "range"), "the lowest value is above the highest"))
        if "range" in entry and "values" in entry:
            found.append(schema.Problem(at, "give a range or values, not both"))
    return found


def _model(name: str, entry: Mapping[str, Any]) -> ModelConfig:
    source = entry["source"]
    kind = next(kind for kind in SOURCE_KINDS if kind in source)
    inputs = {key: _input(value, kind) for key, value in (source.get("inputs") or {}).items()}
    measures = entry.get("equivalence") or {}
    whole = ("outputs", "max_accuracy_drop", "search_s")
    shared = {key: value for key, value in measures.items() if key not in whole}
    latency, named = entry.get("latency") or {}, _named_providers(entry)
    optimize = entry.get("optimize") or {}
    asked = optimize.get("recipes") or ["auto"]
    return ModelConfig(
        name=name,
        source=Source(kind, source[kind], source.get("weights"), inputs, source.get("opset")),
        data=Data(**(entry.get("data") or {})),
        recipes=tuple(item if isinstance(item, str) else f"{recipes.OLIVE_PREFIX}{item['olive']}" for item in asked),
        equivalence=Equivalence(
            _bound(measures),
            {key: _bound(shared | value) for key, value in (measures.get("outputs") or {}).items()},
            float(measures.get("search_s", 0)),
        ),
        latency=_latency(latency),
        budgets=_budgets(entry),
        providers=tuple(named),
        license=entry.get("license"),
        own={name: own for name, value in named.items() if (own := _own(entry, value)) != OwnTerms()},
        min_runtime=optimize.get("min_runtime"),
        session=optimize.get("session", False),
        objective=optimize.get("objective", "latency"),
        budget_s=float(optimize.get("budget_s", SEARCH_S)),
        shapes=tuple({key: tuple(sizes) for key, sizes in item.items()} for item in optimize.get("shapes") or ()),
    )


def _named_providers(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A list of names, or a mapping from each to what it has of its own; the first is the build's."""
    asked = entry.get("providers") or ["cpu"]
    return {name: (asked[name] or {}) if isinstance(asked, Mapping) else {} for name in asked}


def _own(entry: Mapping[str, Any], value: Mapping[str, Any]) -> OwnTerms:
    options = {key: str(option) for key, option in (value.get("options") or {}).items()}
    return OwnTerms(_own_bound(entry, value) if value.keys() - {"options"} else None, options)


def _own_bound(entry: Mapping[str, Any], value: Mapping[str, Any]) -> Bound:
    """What is not named comes from the model's default bound."""
    shared = {key: given for key, given in (entry.get("equivalence") or {}).items() if key != "outputs"}
    return _bound(shared | {key: given for key, given in value.items() if key != "options"})


def _latency(entry: Mapping[str, Any]) -> Latency:
    return Latency(
        max_regression=_share(entry.get("max_regression", 0.10)),
        confidence=float(entry.get("confidence", 0.99)),
        budget_s=float(entry.get("budget_s", 60)),
        max_ms=entry.get("max_ms"),
        max_drift=None if entry.get("max_drift") is None else _share(entry["max_drift"]),
        drift_since=entry.get("drift_since"),
        batches=tuple(entry.get("batches") or ()),
    )


def _budgets(entry: Mapping[str, Any]) -> Budgets:
    memory, size, load = (entry.get(key) or {} for key in ("memory", "size", "load"))
    longer = load.get("max_regression", 0.0)
    return Budgets(memory.get("max_mb"), size.get("max_mb"), None if longer is None else _share(longer))


def _input(entry: Mapping[str, Any], kind: str) -> InputSpec:
    lists = {key: tuple(entry[key]) for key in ("shape", "range", "values") if key in entry}
    return InputSpec(dtype=entry.get("dtype", None if kind == "onnx" else "float32"), **lists)


def _bound(entry: Mapping[str, Any]) -> Bound:
    drop = entry.get("max_accuracy_drop")
    return Bound(
        max_abs=entry.get("max_abs", 1e-3),
        absolute=entry.get("absolute", False),
        min_cosine=entry.get("min_cosine"),
        min_top1=entry.get("min_top1"),
        max_accuracy_drop=None if drop is None else _share(drop),
    )


def _share(value: float | str) -> float:
    return round(float(value[:-1]) / 100, 12) if isinstance(value, str) else float(value)


def for_file(path: Path, shown: str) -> Project:
    """A project of one file, without a configuration."""
    if path.is_dir():
        raise SourceError(
            f"{shown} is a folder, not a model", hint="Name the model's file: artifactctl build FOLDER/model.onnx"
        )
    if not path.is_file():
        raise SourceError(
            f"{shown} does not exist, and no configured model has that name",
            hint="Check the path, or 'artifactctl check' for the configured names.",
        )
    kind = _BY_SUFFIX.get(path.suffix.lower(), "onnx")
    if path.suffix.lower() in (".pt", ".pth", ".jit", ".ts", ".py", ".safetensors", ".ckpt", ".bin"):
        hint = "Run 'artifactctl init' and describe the source and its inputs in artifactctl.yaml."
        raise SourceError(f"{shown} does not say what its inputs are, so it needs a configuration", hint=hint)
    name = model_name_from(path.stem)
    # not resolved: a link is read where it lies
    return Project(path.absolute().parent, {name: ModelConfig(name, Source(kind, path.name))})


def select(project: Project | None, wanted: tuple[str, ...], directory: Path) -> list[tuple[Project, ModelConfig]]:
    """The models that the arguments name: configured names, configured files, or any file; none named: all."""
    if not wanted:
        if project is None:
            hint = "Name a file ('artifactctl build model.onnx'), or run 'artifactctl init'."
            raise ConfigError(f"no model is named and there is no {CONFIG_NAME} here", hint=hint)
        return [(project, model) for model in project.models.values()]
    chosen = []
    for word in wanted:
        path = directory / word
        configured = project.models.get(word) if project else None
        if project and not configured:
            same = [
                model for model in project.models.values()
                if model.source.kind != "torch" and (project.root / model.source.target).resolve() == path.resolve()
            ]  # fmt: skip
            configured = same[0] if same else None
        if project and configured:
            chosen.append((project, configured))
            continue
        if project and not path.exists() and not path.suffix:
            known, meant = ", ".join(project.models), perhaps(word, project.models)
            raise ConfigError(f"no model is named {word!r}{meant}", hint=f"The configured models are: {known}.")
        alone = for_file(path, word)
        chosen.append((alone, next(iter(alone.models.values()))))
    names = [model.name for _, model in chosen]
    for name in names:
        if names.count(name) > 1:
            hint = "Build them into two folders with --output, or give them names in artifactctl.yaml."
            raise ConfigError(f"two of the files would both be called {name!r}", hint=hint)
    return chosen
