"""``flywheel pool``: what became of every line, and what is in the batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from flywheel.cli.alerts import alerts
from flywheel.cli.audited import audited
from flywheel.cli.export import export, release
from flywheel.cli.groups import Group
from flywheel.cli.halts import halts, lift
from flywheel.cli.output import print_json, print_mapping, print_table
from flywheel.cli.pool_queries import points, quality, statistics
from flywheel.cli.waiting import waiting, watermark_sentence

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.group(cls=Group)
def pool() -> None:
    """Look into the benchmark data pool.

    \b
    Examples:
      flywheel pool status
      flywheel pool batches --json
      flywheel pool export --phase sft --dry-run
      flywheel pool retention --dry-run
      flywheel pool erase --tenant acme --dry-run
      flywheel pool statistics smollm2-few-shot
      flywheel pool alerts
      flywheel pool waiting --older-than 2d
      flywheel pool halts
      flywheel pool points --failure --limit 5
      flywheel pool quality
    """


for command in (alerts, halts, lift):
    pool.add_command(command)


@pool.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def status(load: "Callable[[], Settings]", as_json: bool) -> None:
    """Count what became of every line: points, quarantined, duplicates, waiting; and what training still lacks.

    A day is open until the watermark has passed its end and the allowed lateness; stale until it ran with its last
    lines; waiting while a task of it lacks a log; else complete.

    \b
    Example:
      flywheel pool status --json
    """

    from flywheel.cli.connection import pool_of
    from flywheel.pool.overview import list_days, pool_counts, pool_watermark
    from flywheel.pool.readiness import missing, readiness

    with pool_of(load()) as opened:
        counts, mark = pool_counts(opened), pool_watermark(opened)
        days = audited(opened, "overview.read", lambda: list_days(opened))
        lacking = missing(readiness(opened, now=opened.now()), opened.settings.batch)
    if as_json:
        print_json({"counts": counts, "watermark": mark, "days": days, "missingForTraining": lacking})
        return
    print_mapping({name.replace("_", " "): count for name, count in counts.items()})
    click.echo(f"\n{watermark_sentence(mark)}\n")
    columns = ("lines", "points", "quarantined", "duplicates", "waiting", "hot", "warm", "cold", "completeness")
    print_table(("day", *columns), [(d.day, *(getattr(d, name) for name in columns)) for d in days])
    click.echo()
    click.echo("\n  ".join(("not ready for a training batch:", *lacking)) if lacking else "ready for a training batch")


@pool.command()
@click.argument("batch_id", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def batches(load: "Callable[[], Settings]", batch_id: str | None, as_json: bool) -> None:
    """List the batches, training's and exports, or the points of BATCH_ID.

    \b
    Examples:
      flywheel pool batches
      flywheel pool batches batch-20260105-101500 --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.batches import batch_members, list_batches

    with pool_of(load()) as opened:
        if batch_id is not None:
            members = audited(opened, "batches.read", lambda: batch_members(opened, batch_id), batch=batch_id)
            rows = [(m.phase, m.split, m.position, m.point_id, m.source_task, m.day) for m in members]
            show(members, ("phase", "split", "position", "point", "source task", "day"), rows, as_json=as_json)
            return
        found = audited(opened, "batches.read", lambda: list_batches(opened))
    rows_of_batches = [
        (b.id, f"{b.created_at:%Y-%m-%d %H:%M}", counts(b.points), counts(b.splits), b.released_because, b.digest[:16])
        for b in found
    ]
    columns = ("batch", "made at (UTC)", "points", "splits", "released because", "digest")
    show(found, columns, rows_of_batches, as_json=as_json)


@pool.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def retention(load: "Callable[[], Settings]", dry_run: bool, as_json: bool) -> None:
    """Remove what is older than its tier, after the next tier was verified to hold it; compact and vacuum the lake.

    Dagster does the same every day by itself.

    \b
    Examples:
      flywheel pool retention --dry-run
      flywheel pool retention
    """

    from flywheel.cli.connection import pool_of
    from flywheel.pool.retention import RetentionReport, enforce_retention, find_expired

    with pool_of(load()) as opened:
        now = opened.now()
        if dry_run:
            report = RetentionReport(removed=find_expired(opened, now=now), compacted=(), files=0)
        else:
            report = enforce_retention(opened, now=now)
    if as_json:
        print_json(report)
        return
    if report.removed:
        print_table(("day", "store", "rows"), [(item.day, item.store, item.rows) for item in report.removed])
    else:
        click.echo("nothing is older than its tier")
    for item in report.compacted:
        if item.files_after != item.files_before:
            click.echo(f"{item.table}: {item.files_before:,} files became {item.files_after:,}")
    if report.files:
        click.echo(f"{report.files:,} files of replaced versions deleted")


def show(found: object, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]], *, as_json: bool) -> None:
    """Print records as JSON or as a table."""
    if as_json:
        print_json(found)
    else:
        print_table(columns, rows)


def counts(numbers: Mapping[str, int]) -> str:
    """Numbers with their names, in one cell."""
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items()) or "-"


for command in (statistics, points, quality, waiting, export, release):
    pool.add_command(command)
