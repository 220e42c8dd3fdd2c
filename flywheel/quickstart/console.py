"""What a person sees: one line per stage, with a progress bar on a terminal and plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

PLAIN_INTERVAL_S = 15.0
BAR_FITS = 100
"""Columns of a terminal that has room for a bar beside what a stage says."""


class StageLine(Protocol):
    """The line of one stage."""

    def update(self, *, done: int | None = None, total: int | None = None, message: str | None = None) -> None:
        """Show how far it is, and what it does now. What is absent stays as it was."""
        ...


class Display(Protocol):
    """Where stages are shown."""

    def stage(self, title: str) -> AbstractContextManager[StageLine]:
        """A line that is there while the block runs and stays, finished or failed, after it."""
        ...

    def say(self, text: str) -> None:
        """One sentence between the lines."""
        ...


class CountColumn(ProgressColumn):
    """How many of how many; nothing where that is not known."""

    def render(self, task: Task) -> Text:
        """The figures of a stage."""
        known = task.fields["counted"] and task.total is not None
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}" if known else "", style="progress.download")


class TerminalLine:
    """A line with a bar, drawn by rich."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, *, done: int | None = None, total: int | None = None, message: str | None = None) -> None:
        """Redraw."""
        self._progress.update(self._task, completed=done, total=total)
        if total is not None:
            self._progress.update(self._task, counted=True)
        if message is not None:
            self._progress.update(self._task, message=message)


class TerminalDisplay:
    """Lines on a terminal. Use it as a context manager, so that the cursor comes back."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def stage(self, title: str) -> Iterator[StageLine]:
        """One line, live while the block runs."""
        columns = (
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description:<22}"),
            *([BarColumn(bar_width=20)] if self.console.width >= BAR_FITS else []),
            CountColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[message]}", style="dim", markup=False, table_column=Column(ratio=1)),
        )
        with Progress(*columns, console=self.console, refresh_per_second=4, expand=True) as progress:
            task = progress.add_task(title, total=None, message="", counted=False)
            yield TerminalLine(progress, task)
            total = progress.tasks[0].total or 1
            progress.update(task, total=total, completed=total)

    def say(self, text: str) -> None:
        """One sentence."""
        self.console.print(text, soft_wrap=True, markup=False)


class PlainLine:
    """A line that is printed again now and then."""

    def __init__(self, title: str, console: Console, clock: Callable[[], float]) -> None:
        self.title = title
        self.message = ""
        self.done: int | None = None
        self.total: int | None = None
        self._console = console
        self._clock = clock
        self._printed_at = clock()

    def update(self, *, done: int | None = None, total: int | None = None, message: str | None = None) -> None:
        """Remember; print at most every 15 s."""
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total
        self.message = self.message if message is None else message
        if self._clock() - self._printed_at >= PLAIN_INTERVAL_S:
            self._printed_at = self._clock()
            self._console.print(f"  {self.title}: {self.progress()}", soft_wrap=True, markup=False, highlight=False)

    def progress(self) -> str:
        """How far it is, in words."""
        share = f"{self.done}/{self.total}" if self.done is not None and self.total else ""
        return ", ".join(part for part in (share, self.message) if part) or "running"


class PlainDisplay:
    """Lines in a log: one when a stage starts, one now and then, one when it ends."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock

    @contextmanager
    def stage(self, title: str) -> Iterator[StageLine]:
        """Print around the block."""
        started = self._clock()
        self.say(f"{title} ...")
        line = PlainLine(title, self.console, self._clock)
        yield line
        detail = f" ({line.message})" if line.message else ""
        self.say(f"{title}: done in {self._clock() - started:.0f} s{detail}")

    def say(self, text: str) -> None:
        """One sentence."""
        self.console.print(text, soft_wrap=True, markup=False, highlight=False)


def display_for(console: Console) -> TerminalDisplay | PlainDisplay:
    """Bars on a terminal, plain lines in a pipe or file."""
    return TerminalDisplay(console) if console.is_terminal else PlainDisplay(console)
