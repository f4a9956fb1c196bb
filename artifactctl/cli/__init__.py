"""The command line: translates arguments into calls, results into text or JSON, errors into exit codes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import NoReturn

import click

from artifactctl import __version__, errors
from artifactctl.cli.options import Result, Settings, common_options, json_asked

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
COMMANDS = (
    *("init", "check", "build", "rebuild", "verify", "bench", "profile", "inspect", "diff", "package", "sign"),
    *("release", "show", "history", "assign", "yank", "matrix", "cache", "doctor", "selftest", "schema"),
)


class Commands(click.Group):
    """Each command lives in a module of its name; only the one that is asked for is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        command: click.Command = getattr(import_module(f"artifactctl.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}{errors.perhaps(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, context_settings={"auto_envvar_prefix": "ARTIFACTCTL", "help_option_names": ["-h", "--help"]}
)
@common_options
@click.version_option(__version__, prog_name="artifactctl")
def root() -> None:
    """Turn a machine-learning model into a release that can be trusted."""


def main() -> NoReturn:
    for kind in INTERRUPTIONS:
        signal.signal(kind, _interrupted)
    sys.exit(run(sys.argv[1:]))


def _interrupted(*_: object) -> NoReturn:
    """Cleaning up takes a moment, and is not interrupted again. Not by SIG_IGN alone: of one that is on its way already
    Python would print a trace."""
    for kind in INTERRUPTIONS:
        signal.signal(kind, lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):  # to the end: Python gives up its handlers before it exits
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """The only place where an outcome becomes an exit code."""
    for stream in (sys.stdout, sys.stderr):  # a name that is not text must not stop us from saying so
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    settings = Settings()
    settings.json = json_asked(arguments)
    try:
        result = root.main(arguments or ["--help"], prog_name="artifactctl", standalone_mode=False, obj=settings)
        if not isinstance(result, Result):  # --help and --version have printed already
            return result if isinstance(result, int) else 0
        return _finish(settings, result)
    except errors.ArtifactctlError as error:
        return _finish(settings, Result({}, error=error))
    except click.ClickException as error:
        return _usage(settings, error)
    except (KeyboardInterrupt, click.Abort):
        return _say_failure(settings, 130, "Interrupted", "interrupted", "Nothing half-made is left; run it again.")
    except OSError as error:
        return _finish(settings, Result({}, error=disk_error(error)))
    except Exception:  # noqa: BLE001 - a bug: say so, with everything that helps to mend it
        import traceback

        trace = traceback.format_exc()
        click.echo(trace, err=True)
        last = trace.strip().splitlines()[-1]
        return _say_failure(settings, 1, "InternalError", last, "This is a bug in artifactctl; please report it.")


def disk_error(error: OSError) -> errors.ArtifactctlError:
    place = f" ({os.path.basename(str(error.filename))})" if error.filename else ""  # noqa: PTH119
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return errors.NotAvailable(f"no space left on the disk{place}", hint=errors.NO_SPACE_HINT)
    return errors.NotAvailable(
        f"{error.strerror or error}{place}", hint="Check the permissions and the disk; nothing was changed."
    )


def _finish(settings: Settings, result: Result) -> int:
    from artifactctl.report import emit

    return emit.finish(settings, result)


def _say_failure(settings: Settings, code: int, name: str, message: str, hint: str) -> int:
    from artifactctl.report import emit

    return emit.failure(settings, code, {"name": name, "message": message, "hint": hint}, {})


def _usage(settings: Settings, error: click.ClickException) -> int:
    hint = "Run 'artifactctl --help'."
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"Run '{error.ctx.command_path} --help'."
        settings.command = error.ctx.info_name or "" if error.ctx.parent else ""
    return _say_failure(
        settings, error.exit_code if error.exit_code != 1 else 2, "UsageError", error.format_message(), hint
    )
