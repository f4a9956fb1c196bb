"""Each shared option once, and what every command shares."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from artifactctl.errors import ArtifactctlError

if TYPE_CHECKING:
    from pathlib import Path

    from artifactctl.project import Project

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """The options that may stand before or after the command's name."""

    config: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool = True
    command: str = ""

    @property
    def config_path(self) -> Path | None:
        from pathlib import Path

        return Path(self.config) if self.config else None

    def project(self) -> Project | None:
        """The configuration of this directory, or None."""
        from pathlib import Path

        from artifactctl import config

        path = config.find(Path.cwd(), self.config_path)
        return config.load(path, remember=True) if path else None


@dataclass(frozen=True)
class Result:
    """What a command found: `data` for machines, `text` for people, `error` when it is not what was hoped for."""

    data: dict[str, Any]
    text: str = ""
    error: ArtifactctlError | None = None


class EnvOption(click.Option):
    """Also from ARTIFACTCTL_<COMMAND>_<OPTION>, which Click gives, and from plain ARTIFACTCTL_<OPTION>."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        found = super().resolve_envvar_value(ctx)
        return found if found is not None else os.environ.get(f"ARTIFACTCTL_{(self.name or '').upper()}") or None


class Seconds(click.FloatRange):
    """A number, which `nan` is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not found < float("inf"):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return found


class Share(click.ParamType[float]):
    """5% or 0.05."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            found = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            found = -1.0
        if not 0 <= found < 100:
            self.fail(f"{value!r} is not a share such as 5% or 0.05", param, ctx)
        return found


def option(*names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, cls=EnvOption, show_envvar=False, **attributes)


def json_asked(arguments: list[str]) -> bool:
    """Known before parsing, so that a usage error is JSON too."""
    return "--json" in arguments or os.environ.get("ARTIFACTCTL_JSON", "").lower() in ("1", "true", "yes", "on")


def _directory(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    twice = ctx.parent is not None and ctx.get_parameter_source("directory") == ParameterSource.ENVIRONMENT
    if value and not twice:  # the environment speaks to the group and to the command
        try:
            os.chdir(value)
        except OSError as error:
            raise click.BadParameter(f"{value}: {error.strerror}", ctx, param_hint="-C") from None


def _set(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = ctx.ensure_object(Settings)
    if ctx.parent is not None:
        settings.command = ctx.command.name or ""
    if value and parameter.name == "no_color":
        settings.color = False
    elif value and parameter.name:
        setattr(settings, parameter.name, value)


def common_options(command: F) -> F:
    for decorate in reversed(
        (
            option("-C", "directory", metavar="DIR", expose_value=False, is_eager=True, callback=_directory,
                   help="Work in DIR."),
            option("--config", metavar="FILE", expose_value=False, callback=_set,
                   help="The configuration  [default: artifactctl.yaml]"),
            option("--json", is_flag=True, expose_value=False, callback=_set, help="One JSON document on stdout."),
            option("-q", "--quiet", is_flag=True, expose_value=False, callback=_set, help="Only errors."),
            option("-v", "--verbose", is_flag=True, expose_value=False, callback=_set,
                   help="Also what the libraries print."),
            option("--no-color", is_flag=True, expose_value=False, callback=_set, help="No colours."),
        )
    ):  # fmt: skip
        command = decorate(command)
    return command


def provider_option(command: F) -> F:
    from artifactctl.providers import PROVIDERS

    decorate = option("--provider", type=click.Choice(list(PROVIDERS)), help="The execution provider.")
    return decorate(command)


def max_regression_option(command: F) -> F:
    text = "How much slower it may be  [default: latency.max_regression]"
    return option("--max-regression", type=Share(), metavar="5%", help=text)(command)


def limit_options(command: F) -> F:
    """The command gets `limits`."""
    import functools

    @functools.wraps(command)
    def with_limits(*arguments: Any, time_limit: float, memory_limit: int | None, **others: Any) -> Any:
        from artifactctl.project import Limits

        return command(*arguments, limits=Limits(time_limit, memory_limit), **others)

    for decorate in (
        option("--memory-limit", type=click.IntRange(min=256), metavar="MB",
               help="Memory of a child process  [default: nine tenths of the machine's]"),
        option("--time-limit", type=Seconds(min=1), default=1800.0, metavar="S",
               help="Seconds that one step of a model may take  [default: 1800]"),
    ):  # fmt: skip
        with_limits = decorate(with_limits)
    return cast(F, with_limits)


def signature_option(command: F) -> F:
    text = "The signature  [default: beside it, artifact_vN.sig or the package's name.sig]"
    return option("--signature", metavar="FILE", help=text)(command)


def trust_options(command: F) -> F:
    """The command gets `trust`: whose signature it shall believe, or None where none was asked for."""
    import functools

    @functools.wraps(command)
    def with_trust(
        *arguments: Any,
        public_key: str | None,
        identity: str | None,
        identity_provider: str | None,
        signature: str | None,
        **others: Any,
    ) -> Any:
        from pathlib import Path

        from artifactctl.steps.signing import Trust

        if bool(identity) != bool(identity_provider):
            raise click.UsageError("--identity and --identity-provider go together")
        if public_key and identity:
            raise click.UsageError("a signature is made with a key or keyless: --public-key or --identity, not both")
        if signature and not (public_key or identity):
            raise click.UsageError("--signature needs to know whose: --public-key FILE, or --identity ID")
        paths = [Path(name) if name else None for name in (public_key, signature)]
        trust = Trust(paths[0], identity, identity_provider, paths[1]) if public_key or identity else None
        return command(*arguments, trust=trust, **others)

    for decorate in (
        signature_option,
        option("--identity-provider", metavar="URL", help="Who vouched for that identity."),
        option("--identity", metavar="ID", help="First check that this identity signed it, keyless."),
        option("--public-key", metavar="FILE", help="First check that this key signed it."),
    ):
        with_trust = decorate(with_trust)
    return cast(F, with_trust)


def _requirements(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> Any:
    from artifactctl import policy

    try:
        return policy.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def require_option(command: F) -> F:
    text = "Fail unless it has these: equivalence, latency[cpu], accuracy, signature, license, bom."
    return option("--require", multiple=True, metavar="NAME,…", callback=_requirements, help=text)(command)
