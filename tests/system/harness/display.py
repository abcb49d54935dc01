"""Says what is happening now and what was found: a live line on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typing_extensions import Self


_LOG_WIDTH = 100  # columns of the tables where no terminal says how many there are


def people_console() -> Console:
    """Return the console of a demo."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_LOG_WIDTH)


class Display:
    """Progress of a demo.

    :param phases: How many phases there will be.
    :param fed: Days fed so far, asked while the line is drawn.
    """

    def __init__(self, console: Console, *, phases: int, fed: Callable[[], int]) -> None:
        self.console = console
        self._fed = fed
        self._start = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=phases)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        """Show what is happening now."""
        self._progress.update(self._task, description=title)
        self.say(f"[bold]{title}[/bold]")
        yield
        self._progress.advance(self._task)

    def say(self, text: str) -> None:
        """Print one line with the time since the start and the days fed."""
        line = f"[dim]{time.monotonic() - self._start:5.0f} s  day {self._fed():3d}[/dim]  {text}"
        self.console.print(line, soft_wrap=True)  # a terminal wraps it itself, and a log keeps it whole
