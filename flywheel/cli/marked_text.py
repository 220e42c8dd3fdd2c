"""A text in the terminal with its spans marked, in colour and, for pipes, in brackets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_table

if TYPE_CHECKING:
    from rich.text import Text

    from flywheel.pool.anonymization.detectors import Span

COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red")


def print_marked(text: str, spans: "Sequence[Span]") -> None:
    """The text with its spans as ``⟦value⟧1``."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(marked(text, spans))


def print_reasons(title: str, text: str, spans: "Sequence[Span]") -> None:
    """A table that says of each span, by its number, what it is and why."""
    click.echo(f"\n{title}")
    rows = [
        (str(number), one.type, f"{one.start}–{one.end}", visible(text[one.start : one.end], line=True), one.reason)
        for number, one in enumerate(spans, 1)
    ]
    if rows:
        print_table(("", "type", "characters", "value", "why"), rows)


def marked(text: str, spans: "Sequence[Span]") -> "Text":
    """The text with its spans numbered, one colour for each type."""
    from rich.text import Text

    kinds = sorted({span.type for span in spans})
    colors = {kind: COLORS[number % len(COLORS)] for number, kind in enumerate(kinds)}
    whole = Text()
    position = 0
    for number, span in enumerate(spans, 1):
        whole.append(visible(text[position : span.start]))
        whole.append(f"⟦{visible(text[span.start : span.end])}⟧{number}", style=f"bold {colors[span.type]}")
        position = span.end
    return whole.append(visible(text[position:]))


def visible(text: str, *, line: bool = False) -> str:
    """The text without what a terminal would obey: control characters become ``␛``; with ``line`` it stays in one."""
    kept = "" if line else "\n\t"
    return "".join(one if one.isprintable() or one in kept else "␤" if one == "\n" else "␛" for one in text)
