"""How the pool's reports look in Dagster: numbers, row counts, column schemas and plots."""

import base64
from collections.abc import Mapping
from typing import Any

import dagster as dg
import msgspec
from msgspec import Struct

from flywheel.reports.rendering import png

OWNERS = ["team:platform"]
TABULAR = {"python", "deltalake"}


def figures(report: Struct) -> dict[str, dg.MetadataValue[Any]]:
    """Every number, text and small table of a report as metadata, under its own name."""
    return {
        name: shown(value)
        for name, value in msgspec.structs.asdict(report).items()
        if value is not None and name != "day"
    }


def shown(value: Any) -> "dg.MetadataValue[Any]":
    """One value as the metadata type that Dagster draws best."""
    if isinstance(value, bool):
        return dg.MetadataValue.bool(value)
    if isinstance(value, int):
        return dg.MetadataValue.int(value)
    if isinstance(value, float):
        return dg.MetadataValue.float(value)
    if isinstance(value, str):
        return dg.MetadataValue.text(value)
    if isinstance(value, Mapping) and all(isinstance(number, int | float) for number in value.values()):
        return dg.MetadataValue.md(counts_table(value))
    return dg.MetadataValue.json(msgspec.to_builtins(value, str_keys=True))


def counts_table(counts: Mapping[Any, float]) -> str:
    """Counts by name as a Markdown table, largest first."""
    rows = [f"| {name} | {count:,} |" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    return "\n".join(["| | |", "|---|--:|", *rows]) if rows else "none"


def column_schema(columns: Mapping[str, tuple[str, str]]) -> dg.TableSchema:
    """A table's schema from name to (type, description)."""
    return dg.TableSchema(
        columns=[dg.TableColumn(name=name, type=kind, description=text) for name, (kind, text) in columns.items()]
    )


def bar_chart(counts: Mapping[str, float], *, title: str) -> dg.MarkdownMetadataValue:
    """Counts by name as horizontal bars, drawn into the metadata itself."""
    from matplotlib.figure import Figure

    names = sorted(counts, key=lambda name: counts[name])
    figure = Figure(figsize=(7, 0.4 * max(len(names), 1) + 1), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh(names, [counts[name] for name in names], color="#4f43dd")
    axes.bar_label(bars, padding=3, fmt="{:,.0f}")
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return markdown_image(figure, alternative=title)


def markdown_image(figure: Any, *, alternative: str) -> dg.MarkdownMetadataValue:
    """A matplotlib figure as an image inside Markdown."""
    encoded = base64.b64encode(png(figure)).decode()
    return dg.MetadataValue.md(f"![{alternative}](data:image/png;base64,{encoded})")
