"""How commands answer: a table for people, JSON for programs."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

PIPE_WIDTH = 500


def print_json(value: Any) -> None:
    """One JSON document, indented, with times and dates in ISO 8601."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str = "there is nothing to show"
) -> None:
    """Aligned columns; numbers to the right. In a pipe or file no cell is folded to the width of a screen.

    Where there are no rows, ``empty`` says so in the place of the columns.
    """
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


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
