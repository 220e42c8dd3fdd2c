"""``flywheel pool statistics``, ``points`` and ``quality``: the pool is asked, over all tiers."""

import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from flywheel.cli import times
from flywheel.cli.audited import audited
from flywheel.cli.output import cell, print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.pool.filters import PointFilter
    from flywheel.pool.queries.plan import DayRange
    from flywheel.pool.queries.points import Order, Points
    from flywheel.pool.queries.statistics import AgentAnswer, Figures, StatisticsCoverage, SystemAnswer
    from flywheel.pool.queries.sums import By
    from flywheel.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
TABLE_COLUMNS = ("timestamp", "id", "agent_id", "task_type", "complexity", "success", "overall_score", "latency_ms")
FILTERS = (
    click.option("--since", type=times.moment, help="Only from this UTC time on."),
    click.option("--until", type=times.moment, help="Only before this UTC time."),
    click.option("--task-type", "task_types", multiple=True, help="Only this task type; may be repeated."),
    click.option(
        "--complexity",
        "complexities",
        multiple=True,
        type=click.Choice(["trivial", "standard", "complex"]),
        help="Only this; may be repeated.",
    ),
    click.option("--tenant", "tenants", multiple=True, help="Only this tenant, by its hash; may be repeated."),
    click.option("--min-quality", type=click.FloatRange(0, 1), help="Only an overall score of at least this."),
    click.option("--success/--failure", default=None, help="Only successes, or only failures."),
    click.option("--rl-ready/--not-rl-ready", default=None, help="Only what is ready for RL, or only the rest."),
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def filtered(command: Command) -> Command:
    """A command with the options of a filter."""
    for option in reversed(FILTERS):
        command = option(command)
    return command


def where_of(agents: tuple[str, ...], filters: dict[str, Any]) -> "PointFilter":
    """The filter of a command's options."""
    from flywheel.pool.filters import PointFilter

    return PointFilter(agents=agents, **filters)


@click.command()
@click.argument("agent_id", required=False)
@click.option(
    "--by",
    type=click.Choice(["task_type", "agent", "complexity", "day"]),
    default="task_type",
    show_default=True,
    help="Without AGENT_ID: what tasks are grouped by.",
)
@filtered
@as_json_option
@click.pass_obj
def statistics(
    load: "Callable[[], Settings]", /, *, agent_id: str | None, by: str, as_json: bool, **filters: Any
) -> None:
    """Say how AGENT_ID did, or without it all agents: tasks, success rate, quality, latency, tokens.

    All tiers are asked. What the answer covers is said where it is not everything.

    \b
    Examples:
      flywheel pool statistics reference --task-type tool-calling
      flywheel pool statistics --by agent --since 2026-01-05
      flywheel pool statistics --by complexity --json
    """
    from flywheel.cli.connection import pool_of

    with pool_of(load()) as opened:
        where = where_of((), filters)

        def read() -> "AgentAnswer | SystemAnswer":
            if agent_id is not None:
                return opened.get_agent_statistics(agent_id, where)
            return opened.get_system_statistics(cast("By", by), where)

        found = audited(opened, "statistics.read", read, asked=where, agent=agent_id, by=by)
    if as_json:
        print_json(found)
        return
    print_statistics(found)


def print_statistics(found: "AgentAnswer | SystemAnswer") -> None:
    """Figures as a table with their total below, and what they do not cover."""
    from flywheel.pool.queries.statistics import AgentAnswer

    total: Figures
    if isinstance(found, AgentAnswer):
        name, groups, total = "task_type", found.by_task_type, found
    else:
        name, groups, total = found.by, found.groups, found.total
    columns = (name, "tasks", "successes", "success rate", "quality", "ms", "tokens")
    print_table(columns, [(group, *numbers(figures)) for group, figures in [*groups.items(), ("all", total)]])
    print_gaps(found.coverage)


def numbers(figures: "Figures") -> tuple[object, ...]:
    """The figures in the table's order."""
    means = (figures.success_rate, figures.mean_quality, figures.mean_latency_ms)
    return figures.tasks, figures.successes, *means, figures.tokens


def print_gaps(coverage: "StatisticsCoverage") -> None:
    """A sentence for each kind of day that is not answered as it is, on stderr."""
    for days, sentence in (
        (coverage.left_out, "cannot be answered as asked: only their aggregates are kept"),
        (coverage.unplaced, "have points that are neither counted nor in a tier yet"),
        (coverage.out_of_date, "are as they were before their last logs; their run is due"),
    ):
        say_days(days, sentence)


def say_days(days: "Iterable[DayRange]", sentence: str) -> None:
    """The days and what is to be said of them, on stderr."""
    named = ", ".join(
        f"{entry.first}" if entry.first == entry.last else f"{entry.first}–{entry.last}" for entry in days
    )
    if named:
        click.echo(f"{named}: {sentence}", err=True)


@click.command()
@click.option("--agent", "agents", multiple=True, help="Only this agent; may be repeated.")
@filtered
@click.option(
    "--order",
    type=click.Choice(["any", "recent", "oldest"]),
    default="recent",
    show_default=True,
    help="Newest first, oldest first, or the fastest.",
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many. [default: 20 in a table, else all]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "arrow", "parquet"]),
    default="table",
    show_default=True,
    help="A table, whole points as JSON Lines, or columns with the whole point in one of them.",
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="A file; without it standard output.")
@click.pass_obj
def points(
    load: "Callable[[], Settings]",
    /,
    *,
    agents: tuple[str, ...],
    order: str,
    limit: int | None,
    form: str,
    output: Path | None,
    **filters: Any,
) -> None:
    """Print points of all tiers, each once.

    Days that are too old for single points are named on stderr.

    \b
    Examples:
      flywheel pool points --agent reference --failure
      flywheel pool points --since 2026-01-05 --min-quality 0.8 --format jsonl > points.jsonl
      flywheel pool points --format parquet --order any --output points.parquet
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.queries.points import PointQuery
    from flywheel.pool.schemas import POINT_COLUMNS

    columns = {"table": TABLE_COLUMNS, "jsonl": ("payload",)}.get(form, tuple(POINT_COLUMNS))
    query = PointQuery(
        where=where_of(agents, filters),
        columns=columns,
        order=cast("Order", order),
        limit=20 if limit is None and form == "table" else limit,
    )
    with pool_of(load()) as opened:
        found = opened.get_points(query)
        terms: dict[str, Any] = {"asked": query.where, "format": form, "order": order, "limit": query.limit}
        if form == "table":
            table = audited(opened, "points.read", found.table, **terms)
            rows = [tuple(row.values()) for row in table.to_pylist()]
            print_table(columns, rows, empty="the pool has no such point")
        elif output is None:
            audited(opened, "points.read", lambda: None, streamed=True, **terms)
            write_points(found, form, sys.stdout.buffer)
        else:
            audited(opened, "points.read", lambda: None, streamed=True, output=str(output), **terms)
            with output.open("wb") as file:
                write_points(found, form, file)
        coverage = found.coverage
    say_days(coverage.aggregates_only, "too old for single points; `flywheel pool statistics` knows them")
    say_days(coverage.unplaced, "have points that are in no tier yet")


def write_points(found: "Points", form: str, file: IO[bytes]) -> None:
    """Points into a file, some thousand in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with found.reading() as reading:
        if form == "jsonl":
            for batch in reading.batches:
                file.write("".join(f"{payload}\n" for payload in batch.column("payload").to_pylist()).encode())
            return
        sink = pa.PythonFile(file, mode="w")
        make = pa.ipc.new_stream if form == "arrow" else pq.ParquetWriter
        with make(sink, reading.schema) as writer:
            for batch in reading.batches:
                writer.write_batch(batch)
        sink.flush()


@click.command()
@click.option("--from", "first", type=times.day, help="The first UTC day.")
@click.option("--to", "last", type=times.day, help="The last UTC day.")
@as_json_option
@click.pass_obj
def quality(load: "Callable[[], Settings]", first: date | None, last: date | None, as_json: bool) -> None:
    """Hold the quality of some days, or of all, against the targets.

    Exits 1 where one is not met.

    \b
    Examples:
      flywheel pool quality
      flywheel pool quality --from 2026-01-05 --to 2026-01-11 --json
    """
    from flywheel.cli.connection import pool_of

    with pool_of(load()) as opened:
        found = audited(opened, "overview.read", lambda: opened.validate_quality(first, last), first=first, last=last)
    if as_json:
        print_json(found)
    else:
        print_mapping(
            {
                "days": f"{found.days:,}, {found.first} to {found.last}",
                "lines": found.lines,
                "points": found.points,
                "quarantined": by_gate(found.quarantined, found.quarantined_by_gate),
                "warned": by_gate(None, found.warnings_by_gate),
                "duplicates": found.duplicates,
                "waiting": found.waiting,
                "pass rate of lines": f"{found.pass_rate:.2%}",
            }
        )
        click.echo()
        for target in found.targets:
            click.echo(f"{'met   ' if target.passed else 'MISSED'}  {target.verdict}")
    if not found.passed:
        sys.exit(1)


def by_gate(total: int | None, gates: dict[str, int]) -> str:
    """A count, and of which gates."""
    named = ", ".join(f"{gate} {count:,}" for gate, count in gates.items())
    return " ".join(filter(None, (cell(total) if total is not None else "", f"({named})" if named else ""))) or "-"
