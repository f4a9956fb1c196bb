"""The cells of a project for CI: one for each model and each provider. Pure: configuration in, cells out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from artifactctl.errors import ConfigError, perhaps
from artifactctl.project import ModelConfig
from artifactctl.providers import PROVIDERS

MOST_CELLS = 256  # what GitHub takes of one matrix
GPU = ("cuda", "tensorrt")


@dataclass(frozen=True, slots=True)
class Cell:
    model: str
    provider: str
    runs_on: tuple[str, ...]
    extra: str
    emulated: bool
    name: str  # for people

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"runs_on": list(self.runs_on)}


def cells(
    models: Mapping[str, ModelConfig],
    wanted: Sequence[str],
    providers: Sequence[str],
    runners: Mapping[str, tuple[str, ...]],
) -> list[Cell]:
    """`wanted` and `providers` narrow the project down, none of them: all; `runners` are labels by provider."""
    for name in wanted:
        _demand_known("model", name, models)
    for name in (*providers, *runners):
        _demand_known("provider", name, PROVIDERS)
    chosen = [models[name] for name in dict.fromkeys(wanted)] or list(models.values())
    for name in providers:
        if not any(name in model.providers for model in chosen):
            names = ", ".join(model.name for model in chosen)
            hint = f"Add it to providers in artifactctl.yaml, as in providers: [cpu, {name}]."
            raise ConfigError(f"no cell is left: none of the models ({names}) names the provider {name!r}", hint=hint)
    pairs = [(model.name, name) for model in chosen for name in model.providers if not providers or name in providers]
    if not pairs:
        raise ConfigError("no cell is left: there is no model", hint="Name one under models in artifactctl.yaml.")
    if len(pairs) > MOST_CELLS:
        hint = "Split it: artifactctl matrix MODEL… in one job, and the other models in another; or --provider P."
        raise ConfigError(f"{len(pairs)} cells are more than the {MOST_CELLS} that GitHub takes", hint=hint)
    labels = {name: runners.get(name) or PROVIDERS[name].runs_on for _, name in pairs}
    _demand_labels(name for name, found in labels.items() if not found)
    return [_cell(model, provider, labels[provider]) for model, provider in pairs]


def parse_runners(texts: Sequence[str], gpu_runner: str | None) -> dict[str, tuple[str, ...]]:
    """PROVIDER=LABEL[,LABEL…] each; the GPU's labels are for all providers that need one and have no other."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        provider, separator, labels = text.partition("=")
        if not separator or not _labels(labels):
            raise ConfigError(
                f"{text!r} names no runner", hint="It is written --runner cuda=LABEL or cuda=LABEL,LABEL."
            )
        found[provider.strip()] = _labels(labels)
    shared = _labels(gpu_runner or "")
    return (dict.fromkeys(GPU, shared) if shared else {}) | found


def _labels(text: str) -> tuple[str, ...]:
    return tuple(label.strip() for label in text.split(",") if label.strip())


def _cell(model: str, provider: str, labels: tuple[str, ...]) -> Cell:
    row = PROVIDERS[provider]
    return Cell(model, provider, labels, row.extra, row.emulated, f"{model} · {provider}")


def _demand_labels(lacking: Iterable[str]) -> None:
    """A cell that no runner would take waits for hours, or is skipped in silence: better no matrix at all."""
    names = list(lacking)
    if not names:
        return
    lines = [f"--runner {name}=LABEL" for name in names if name not in GPU]
    lines += ["--gpu-runner LABEL"] if set(names) & set(GPU) else []
    hint = f"Name the label of a runner that has it: {' '.join(lines)} (in the workflow: gpu-runner, runners)."
    raise ConfigError(f"GitHub has no runner of its own for {', '.join(names)}", hint=hint)


def _demand_known(what: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name in names:
        return
    raise ConfigError(f"no {what} is named {name!r}{perhaps(name, names)}", hint=f"Known are: {', '.join(names)}.")
