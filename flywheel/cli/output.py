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
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
"""What a terminal obeys and nobody reads, as it is written."""


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
    from rich.text import Text

    rows = list(rows)
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [[Text(cell(value)) for value in row] for row in rows]
    narrowest = -GAP
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in rows)
        widest = max(row[index].cell_len for row in cells)
        is_prose = any(row[index].cell_len > PROSE and " " in row[index].plain for row in cells)
        table.add_column(
            column,
            justify="right" if numeric else "left",
            no_wrap=not is_prose,
            min_width=FOLDED if is_prose else None,
            overflow="fold",
        )
        narrowest += GAP + (FOLDED if is_prose else max(len(column), widest))
    for texts in cells:
        table.add_row(*texts)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    console.width = max(console.width, narrowest)
    console.print(table)


def print_mapping(values: Mapping[str, Any]) -> None:
    """One name and value a line, aligned."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {cell(value)}")


def cell(value: Any) -> str:
    """A value as a person reads it; what others wrote into it gives the terminal no orders."""
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
    return text.translate(CONTROLS)
