"""How the pool's reports look in Dagster: numbers, row counts, column schemas and plots."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from io import BytesIO
from typing import Any

import dagster as dg
import msgspec
from msgspec import Struct

from flywheel.pool.lake_readings import TierHistory
from flywheel.pool.trends import Outlook, PhaseOutlook
from flywheel.reports.rendering import png, table

OWNERS = ["team:platform"]
TABULAR = {"python", "deltalake"}
COLORS = ("#4f43dd", "#e07a1f", "#1b9e77", "#d6336c", "#2b8cbe", "#5a6472")
FAINT = "#cbc7f5"
SCALARS: tuple[tuple[type, Callable[[Any], dg.MetadataValue[Any]]], ...] = (
    (bool, dg.MetadataValue.bool),  # before int, which it is as well
    (int, dg.MetadataValue.int),
    (float, dg.MetadataValue.float),
    (str, dg.MetadataValue.text),
    (datetime, dg.MetadataValue.timestamp),
)


def figures(report: Struct) -> dict[str, dg.MetadataValue[Any]]:
    """Every number, text and small table of a report as metadata, under its own name."""
    return {
        name: shown(value)
        for name, value in msgspec.structs.asdict(report).items()
        if value is not None and name != "day"
    }


def shown(value: Any) -> "dg.MetadataValue[Any]":
    """One value as the metadata type that Dagster draws best."""
    for kind, make in SCALARS:
        if isinstance(value, kind):
            return make(value)
    if isinstance(value, Mapping) and all(isinstance(number, int | float) for number in value.values()):
        return dg.MetadataValue.md(counts_table(value))
    return dg.MetadataValue.json(msgspec.to_builtins(value, str_keys=True))


def counts_table(counts: Mapping[Any, float]) -> str:
    """Counts by name as a Markdown table, largest first."""
    rows = [f"| {name} | {count:,} |" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    return "\n".join(["| | |", "|---|--:|", *rows]) if rows else "none"


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = ""
) -> dg.MarkdownMetadataValue:
    """A table as metadata, below its title."""
    content = table(columns, rows) if rows else "none"
    return dg.MetadataValue.md(f"{title}\n\n{content}" if title else content)


def markdown_list(sentences: Iterable[str]) -> dg.MarkdownMetadataValue:
    """Sentences as metadata, a point each."""
    return dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in sentences) or "none")


def column_schema(columns: Mapping[str, tuple[str, str]]) -> dg.TableSchema:
    """A table's schema from name to (type, description)."""
    return dg.TableSchema(
        columns=[dg.TableColumn(name=name, type=kind, description=text) for name, (kind, text) in columns.items()]
    )


def bar_chart(counts: Mapping[str, float], *, title: str, share: bool = False) -> dg.MarkdownMetadataValue:
    """Counts by name as horizontal bars, drawn into the metadata itself; with ``share`` fractions 0–1 as percent."""
    names = sorted(counts, key=lambda name: counts[name])
    figure, axes = canvas(title, height=0.4 * max(len(names), 1) + 1)
    if not names:
        return nothing_yet(figure, axes, title)
    bars = axes.barh([label(name) for name in names], [counts[name] for name in names], color=COLORS[0])
    axes.bar_label(bars, padding=3, fmt="{:.1%}" if share else "{:,.0f}")
    axes.margins(x=0.12)
    if share:
        axes.set_xlim(0, 1.1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        axes.xaxis.set_major_formatter("{x:.0%}")
    elif max(counts.values()) <= 0:
        axes.set_xlim(0, 1)
    else:
        axes.xaxis.set_major_formatter("{x:,.0f}")
    return markdown_image(figure, alternative=title)


def day_chart(counts: Mapping[date, float], *, title: str, decimals: int = 0) -> dg.MarkdownMetadataValue:
    """Counts or amounts by day as bars; the newest day is the one looked at."""
    figure, axes = canvas(title)
    if not any(counts.values()):
        return nothing_yet(figure, axes, title)
    days = sorted(counts)
    colors = [COLORS[0] if day == days[-1] else FAINT for day in days]
    bars = axes.bar(days, [counts[day] for day in days], color=colors, width=0.8)
    axes.bar_label(bars, labels=[""] * (len(days) - 1) + [f"{counts[days[-1]]:,.{decimals}f}"], padding=2)
    axes.yaxis.set_major_formatter(f"{{x:,.{decimals}f}}")
    axes.yaxis.get_major_locator().set_params(integer=not decimals)
    axes.set_ylim(0, max(counts.values()) * 1.15)
    axes.set_xlim(days[-1] - timedelta(days=max(len(days), 7)), days[-1] + timedelta(days=1))
    date_axis(axes)
    return markdown_image(figure, alternative=title)


def share_chart(
    series: Mapping[str, Mapping[date, float]], *, title: str, limit: float | None = None
) -> dg.MarkdownMetadataValue:
    """Fractions 0–1 by name and day as lines in percent; of many names the first ones, which is said in the title.

    ``limit`` is drawn as what should be reached.
    """
    shown = {name: values for name, values in list(series.items())[: len(COLORS)] if values}
    more = len(series) - len(shown)
    figure, axes = canvas(f"{title} (without {more:,} more)" if more > 0 and shown else title)
    if not shown:
        return nothing_yet(figure, axes, title)
    for color, (name, values) in zip(COLORS, shown.items(), strict=False):
        axes.plot(list(values), list(values.values()), color=color, label=label(name), marker="o", markersize=3.5)
    last = max(day for values in shown.values() for day in values)
    first = min(day for values in shown.values() for day in values)
    axes.set_xlim(min(first, last - timedelta(days=6)) - timedelta(days=1), last + timedelta(days=1))
    lowest = min([value for values in shown.values() for value in values.values()] + ([limit] if limit else []))
    axes.set_ylim(max(0.0, lowest - 0.1) if lowest > 0.5 else 0.0, 1.02)
    axes.yaxis.set_major_formatter("{x:.0%}")
    if limit is not None:
        axes.axhline(limit, color="#b3261e", linewidth=1, linestyle="--", label=f"{limit:.0%} wanted")
    if len(shown) > 1 or limit is not None:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")
    date_axis(axes)
    return markdown_image(figure, alternative=title)


def outlook_chart(outlook: Outlook, *, title: str) -> dg.MarkdownMetadataValue:
    """How near each phase of the next batch is to its points, and when it has them."""
    figure, axes = canvas(title, height=0.6 * len(outlook.phases) + 1)
    names = [phase.phase for phase in reversed(outlook.phases)]
    reached = [min(phase.points / phase.needed, 1.0) for phase in reversed(outlook.phases)]
    axes.barh(names, [1] * len(names), color=FAINT, height=0.5)
    axes.barh(names, reached, color=COLORS[0], height=0.5)
    for row, phase in enumerate(reversed(outlook.phases)):
        axes.annotate(f"{phase.points:,} of {phase.needed:,}; {waiting(phase)}", (1.02, row), va="center")
    axes.set_xlim(0, 2)
    axes.set_xticks([])
    axes.spines[["bottom"]].set_visible(False)
    return markdown_image(figure, alternative=title)


def waiting(phase: PhaseOutlook) -> str:
    """When a phase has its points, in words."""
    if phase.days == 0:
        return "enough"
    if phase.days is None:
        return "never at this rate, 0 a day"
    return f"{phase.days:,.1f} days at {phase.per_day:,.1f} a day"


def outlook_figures(outlook: Outlook) -> dict[str, dg.MetadataValue[Any]]:
    """When the next batch can be made, as metadata."""
    days = {} if outlook.days is None else {"days_to_next_batch": dg.MetadataValue.float(outlook.days)}
    lacking = "\n".join(f"- {sentence}" for sentence in outlook.missing)
    return {
        **days,
        "next_batch": outlook_chart(outlook, title="points for the next batch"),
        "next_batch_lacks": dg.MetadataValue.md(lacking or "nothing: it can be made now"),
    }


def history_figures(history: TierHistory) -> dict[str, dg.MetadataValue[Any]]:
    """What a tier holds and how it grew, as metadata."""
    return {
        **figures(history.size),
        "rows_trend": day_chart(history.rows, title="rows of the tier by day"),
        "size_trend": day_chart(history.megabytes, title="MB of the tier by the day they were read", decimals=1),
    }


def canvas(title: str, *, height: float = 2.6) -> tuple[Any, Any]:
    """An empty figure of the width that Dagster shows, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(label(title, longest=90), loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def nothing_yet(figure: Any, axes: Any, title: str) -> dg.MarkdownMetadataValue:
    """The picture of nothing: it says so."""
    axes.set_axis_off()
    axes.text(0, 0.5, "nothing yet", color="#77757f", transform=axes.transAxes, va="center")
    return markdown_image(figure, alternative=title)


def date_axis(axes: Any) -> None:
    """Days as people read them, few enough to fit."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def label(name: str, *, longest: int = 36) -> str:
    """A name of the data as a plain label: short, in one line, and no formula where it has dollar signs."""
    line = " ".join(str(name).split())
    return (line if len(line) <= longest else f"{line[: longest - 1]}…").replace("$", r"\$")


def markdown_image(figure: Any, *, alternative: str) -> dg.MarkdownMetadataValue:
    """A matplotlib figure as an image inside Markdown, small: every materialization keeps its own."""
    encoded = base64.b64encode(reduced(png(figure))).decode()
    return dg.MetadataValue.md(f"![{alternative}](data:image/png;base64,{encoded})")


def reduced(image: bytes) -> bytes:
    """A PNG in 64 colors: a third of the size, and a plot has no more."""
    from PIL import Image

    buffer = BytesIO()
    Image.open(BytesIO(image)).convert("RGB").quantize(64).save(buffer, format="png", optimize=True)
    return buffer.getvalue()
