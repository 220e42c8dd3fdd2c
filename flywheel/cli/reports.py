"""``flywheel reports``: how agents, collection and training do, by day, week and month."""

from collections.abc import Callable
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from flywheel.cli import times
from flywheel.cli.audited import audited
from flywheel.cli.groups import Group
from flywheel.cli.output import cell, print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.pool.pool import BenchmarkPool
    from flywheel.reports.collection import CollectionReport
    from flywheel.reports.comparison import Period
    from flywheel.reports.training import TrainingReport
    from flywheel.settings import Settings

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
since_option = click.option("--from", "first", type=times.day, help="The first UTC day. [default: 6 days before --to]")
until_option = click.option("--to", "last", type=times.day, help="The last UTC day. [default: yesterday]")


@click.group(cls=Group)
def reports() -> None:
    """Report on agents, collection and training.

    \b
    Examples:
      flywheel reports feedback
      flywheel reports compare --period month
      flywheel reports collection
      flywheel reports training --from 2026-01-01 --to 2026-03-31
    """


@reports.command()
@click.argument("agent_id", required=False)
@click.option("--day", type=times.day, help="UTC day. [default: yesterday]")
@as_json_option
@click.pass_obj
def feedback(load: "Callable[[], Settings]", agent_id: str | None, day: date | None, as_json: bool) -> None:
    """Say how AGENT_ID did, or all agents: the day, trends over four weeks, what changed, training needs, strengths.

    A trend is called by Mann and Kendall's test; a need or strength is a task type in which the agent does worse or
    better than the others by more than chance explains.

    \b
    Examples:
      flywheel reports feedback
      flywheel reports feedback smollm2-few-shot --day 2026-01-05 --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.errors import NotInPoolError
    from flywheel.reports.feedback import feedback_reports
    from flywheel.reports.tables import feedback_sentences, feedback_table

    with pool_of(load()) as opened:
        of = day or yesterday(opened)
        found = audited(opened, "statistics.read", lambda: feedback_reports(opened, of), day=of, agent=agent_id)
    if agent_id is not None:
        found = tuple(report for report in found if report.agent_id == agent_id)
        if not found:
            raise NotInPoolError(f"{agent_id} had no task in the four weeks until {of}; without a name all are listed")
    if as_json:
        print_json(found)
        return
    click.echo(f"{of}\n")
    print_table(*feedback_table(found), empty=f"no agent had a task in the four weeks until {of}")
    sentences = list(feedback_sentences(found))
    if sentences:
        click.echo("\n" + "\n".join(sentences))


@reports.command()
@click.option("--period", type=click.Choice(["week", "month"]), default="week", show_default=True)
@click.option("--until", type=times.day, help="The last UTC day that is counted. [default: yesterday]")
@as_json_option
@click.pass_obj
def compare(load: "Callable[[], Settings]", period: str, until: date | None, as_json: bool) -> None:
    """Hold the agents against each other over a week or month, and each against itself in the one before.

    \b
    Examples:
      flywheel reports compare
      flywheel reports compare --period month --until 2026-01-31 --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.reports.comparison import compare_agents
    from flywheel.reports.tables import comparison_table, comparison_title

    with pool_of(load()) as opened:
        last = until or yesterday(opened)
        found = audited(
            opened,
            "statistics.read",
            lambda: compare_agents(opened, cast("Period", period), until=last),
            period=period,
            until=last,
        )
    if as_json:
        print_json(found)
        return
    click.echo(f"{comparison_title(found)}\n")
    print_table(*comparison_table(found), empty=f"no agent had a task in this {period} until {last}")


@reports.command()
@since_option
@until_option
@as_json_option
@click.pass_obj
def collection(load: "Callable[[], Settings]", /, as_json: bool, **days: date | None) -> None:
    """Say how much came, of whom, how good it is, how long it waited, and how the pool grows.

    \b
    Examples:
      flywheel reports collection
      flywheel reports collection --from 2026-01-01 --to 2026-01-31 --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.reports.collection import report_collection

    with pool_of(load()) as opened:
        first, last = range_of(opened, **days)
        read = "overview.read"
        found = audited(opened, read, lambda: report_collection(opened, first, last), first=first, last=last)
    if as_json:
        print_json(found)
    else:
        print_mapping(collection_lines(found))


@reports.command()
@since_option
@until_option
@as_json_option
@click.pass_obj
def training(load: "Callable[[], Settings]", /, as_json: bool, **days: date | None) -> None:
    """Say which batches were made, what they consumed, and whether promoted models do better than those before.

    \b
    Examples:
      flywheel reports training
      flywheel reports training --from 2026-01-01 --to 2026-03-31 --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.reports.training import report_training

    with pool_of(load()) as opened:
        first, last = range_of(opened, **days)
        found = audited(opened, "batches.read", lambda: report_training(opened, first, last), first=first, last=last)
    if as_json:
        print_json(found)
    else:
        print_training(found)


def yesterday(opened: "BenchmarkPool") -> date:
    """The last UTC day that has ended."""
    from flywheel.records import utc_day

    return utc_day(opened.now()) - timedelta(days=1)


def range_of(opened: "BenchmarkPool", *, first: date | None, last: date | None) -> tuple[date, date]:
    """The days that are asked for; a week without more.

    Raises:
        BadParameter: the first is after the last.
    """
    until = last or yesterday(opened)
    since = first or until - timedelta(days=6)
    if since > until:
        raise click.BadParameter(f"{since} is after {until}", param_hint="--from")
    return since, until


def collection_lines(found: "CollectionReport") -> dict[str, Any]:
    """The report on collection, a line each."""
    intake, quality = found.intake, found.quality
    waits = NOTHING if intake.median_s is None else f"{intake.median_s:,.0f} s, 95 % within {intake.p95_s:,.0f} s"
    growth = NOTHING if found.megabytes_per_day is None else f"{found.megabytes_per_day:,.1f} MB"
    judged = [] if quality is None else [target.verdict for target in quality.targets]
    return {
        "days": f"{found.first} to {found.last}",
        "points": f"{found.points:,}, {found.points_per_day:,.1f} a day",
        **{f"  {day}": count for day, count in found.by_day.items()},
        "by agent": counted(found.by_agent),
        "by task type": counted(found.by_task_type),
        "by complexity": counted(found.by_complexity),
        "agents with points": covered(found.agents.fraction, found.agents.absent),
        "task types with points": covered(found.task_types.fraction, found.task_types.absent),
        **{f"quality {number}": verdict for number, verdict in enumerate(judged, 1)},
        "segments' wait for intake": waits,
        "growth a day": growth,
    }


NOTHING = "-"


def counted(counts: dict[str, int]) -> str:
    """Counts in a line."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or NOTHING


def covered(fraction: float, absent: tuple[str, ...]) -> str:
    """A share, and who is not in it."""
    return f"{fraction:.0%}{f'; none of {cell(absent)}' if absent else ''}"


def print_training(found: "TrainingReport") -> None:
    """The report on training, promotions as a table."""
    from flywheel.reports.tables import points, share

    gain = NOTHING if found.mean_quality_gain is None else f"{found.mean_quality_gain:+.3f}"
    print_mapping(
        {
            "days": f"{found.first} to {found.last}",
            "batches": counted(found.batches),
            "given up": found.given_up,
            "points in a batch, mean": found.mean_points,
            "points consumed": found.points_consumed,
            "models promoted": f"{len(found.promotions):,}, {found.improved:,} better, {found.worsened:,} worse",
            "mean gain of quality": gain,
        }
    )
    if found.promotions:
        click.echo()
        rows = [
            (
                f"{one.at.astimezone(UTC):%Y-%m-%d %H:%M}",
                one.version,
                one.predecessor,
                share(one.after.success_rate),
                share(one.before.success_rate if one.before else None),
                NOTHING if one.change is None else points(one.change),
            )
            for one in found.promotions
        ]
        print_table(("promoted (UTC)", "version", "after version", "success", "before", "change"), rows)
