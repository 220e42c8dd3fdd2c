"""How commands answer: a table for people, JSON for programs."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

PIPE_WIDTH = 500
PROSE = 32
"""A column with longer cells of several words is folded at these, where the screen is narrow, and no other."""
FOLDED = 20
"""The least width that such a column is folded to."""
GAP = 2


def print_json(value: Any) -> None:
    """One JSON document, indented, with times and dates in ISO 8601."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str = "there is nothing to show"
) -> None:
    """Aligned columns; numbers to the right. Sentences are folded to a screen's width, names and figures never.

    Where there are no rows, ``empty`` says so in the place of the columns.
    """
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    narrowest = 0
    for index, column in enumerate(columns):
        values = [row[index] for row in rows]
        is_prose = any(len(text) > PROSE and " " in text for text in map(cell, values))
        numeric = all(isinstance(value, int | float) for value in values)
        table.add_column(
            column, justify="right" if numeric else "left", no_wrap=not is_prose, min_width=FOLDED if is_prose else None
        )
        narrowest += GAP + (FOLDED if is_prose else max(len(column), *(len(cell(value)) for value in values)))
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    screen = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=screen)
    console.width = max(console.width, narrowest)
    console.print(table)


def print_mapping(values: Mapping[str, Any]) -> None:
    """One name and value a line, aligned."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {cell(value)}")


def cell(value: Any) -> str:
    """A value as a person reads it."""
    text = str(value)
    match value:
        case None | True | False:
            text = {None: "-", True: "yes", False: "no"}[value]
        case int():
            text = f"{value:,}"
        case float():
            text = f"{value:,.3f}"
        case datetime():
            text = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        case list() | tuple():
            text = ", ".join(map(cell, value))
        case Mapping():
            text = " ".join(f"{name}={cell(one)}" for name, one in value.items())
    return text
