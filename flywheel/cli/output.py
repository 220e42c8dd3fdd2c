"""How commands answer: a table for people, JSON for programs."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

PIPE_WIDTH = 500


def print_json(value: Any) -> None:
    """One JSON document, indented, with times and dates in ISO 8601."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Aligned columns; numbers to the right. In a pipe or file no cell is folded to the width of a screen."""
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
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
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return str(value)
