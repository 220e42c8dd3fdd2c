"""``flywheel pool waiting``: the tasks that lack a log; and up to when logs were taken in."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from flywheel.cli.audited import audited
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.pool.watermark import Watermark
    from flywheel.settings import Settings

UNITS = {"m": "minutes", "h": "hours", "d": "days"}
TENANT_HASH = re.compile(r"[0-9a-f]{64}")


def duration(context: click.Context, parameter: click.Parameter, value: str | None) -> timedelta | None:
    """A number with its unit as a time span."""
    del context, parameter
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,5})([mhd])", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no time span; write 90m, 12h or 2d")
    return timedelta(**{UNITS[found.group(2)]: int(found.group(1))})


@click.command()
@click.option("--tenant", "tenants", multiple=True, help="Only this tenant, by its name or hash; may be repeated.")
@click.option("--older-than", callback=duration, help="Only what has waited so long: 90m, 12h or 2d.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def waiting(
    load: "Callable[[], Settings]",
    /,
    *,
    tenants: tuple[str, ...],
    older_than: timedelta | None,
    limit: int,
    as_json: bool,
) -> None:
    """List tasks that lack a log, the longest wait first: what came, what is missing, and when they expire.

    A task that expires goes to quarantine, and comes back if its log comes after all.

    \b
    Examples:
      flywheel pool waiting
      flywheel pool waiting --tenant acme --older-than 2d
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.anonymization.tenants import salts_of
    from flywheel.pool.filters import PointFilter
    from flywheel.pool.waiting import list_waiting

    with pool_of(load()) as opened:
        salts = salts_of(opened.settings)
        hashes = [one for name in tenants for one in ((name,) if TENANT_HASH.fullmatch(name) else salts.hashes(name))]
        before = None if older_than is None else opened.now() - older_than
        found = audited(
            opened,
            "waiting.read",
            lambda: list_waiting(opened, tenants=hashes, before=before, limit=limit),
            asked=PointFilter(tenants=tuple(hashes)),
            before=before,
            limit=limit,
        )
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no task that was asked for waits" if tenants or before else "no task waits")
        return
    print_table(
        ("task", "tenant", "day", "came", "missing", "since (UTC)", "expires (UTC)"),
        [(t.task_id, t.tenant_id, t.day, t.present, t.missing, minute(t.since), minute(t.expires_at)) for t in found],
    )
    if len(found) == limit:
        click.echo(f"{limit:,} are shown; --limit shows more", err=True)


def minute(instant: datetime) -> str:
    """A moment in UTC, to the minute."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M}"


def watermark_sentence(mark: "Watermark | None") -> str:
    """Up to when all that collectors wrote was taken in, and what holds it back."""
    if mark is None:
        return "watermark: none, nobody has looked for segments yet"
    held = f", held back by {mark.held_by}, which a collector still writes" if mark.held_by else ""
    seconds = f"{mark.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return f"watermark: {seconds} UTC, as of {minute(mark.observed_at)} UTC{held}"
