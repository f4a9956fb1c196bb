"""What is being done, while it is being done: a bar on a terminal, plain lines elsewhere, nothing with --quiet."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator

from artifactctl.cli.options import Settings


@contextlib.contextmanager
def progress(settings: Settings, name: str, steps: int) -> Iterator[Callable[[str], None]]:
    """Yields the function that says the next of so many steps; the first call starts the display."""
    if settings.quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty() or "CI" in os.environ or settings.verbose:
        yield _plain(name)
        return
    with contextlib.ExitStack() as stack:
        yield _bar(settings, name, steps, stack)


def _plain(name: str) -> Callable[[str], None]:
    def say(text: str) -> None:
        sys.stderr.write(f"{name}: {text}\n")
        sys.stderr.flush()

    return say


def _bar(settings: Settings, name: str, steps: int, stack: contextlib.ExitStack) -> Callable[[str], None]:
    started: list[Callable[[str], None]] = []

    def start() -> Callable[[str], None]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
        console = Console(stderr=True, no_color=not settings.color)
        bar = stack.enter_context(Progress(*columns, console=console, transient=True))
        task = bar.add_task(name, total=steps)
        said = itertools.count(1)

        def advance(text: str) -> None:
            """What there is to time is known late, so there may be more steps than were told: it is full at no step."""
            step = next(said)
            bar.update(task, completed=step, total=max(steps, step + 1), description=f"{name}: {text}")

        return advance

    def say(text: str) -> None:
        if text.startswith("warning:"):
            sys.stderr.write(f"{name}: {text}\n")
            return
        if not started:
            started.append(start())
        started[0](text)

    return say
