"""When a task that lacks a log stops waiting: it then goes to quarantine, and comes back if the log comes. Pure."""

from datetime import datetime, timedelta

from msgspec import Struct

from flywheel.pool.joining import Joined, Rejection
from flywheel.pool.rows import column_text

INCOMPLETE_EXPIRED = "incomplete-expired"
"""The gate that lines are quarantined by whose task did not become whole in time."""


class Waiting(Struct, frozen=True, array_like=True):
    """A row of ``waiting_tasks``: a task that lacks a log, by the keys that its lines are joined under.

    ``tenant_id`` is the name as UTF-8, None where no log names one; ``since`` is when its first line arrived.
    """

    task_key: bytes
    owner_key: bytes
    task_id: str
    tenant_id: bytes | None
    present: tuple[str, ...]
    missing: tuple[str, ...]
    since: datetime
    lines: int


def is_expired(since: datetime, *, longest_wait: timedelta, now: datetime) -> bool:
    """Whether a task that waits since then has waited long enough."""
    return since + longest_wait <= now


def waiting_row(joined: Joined) -> Waiting:
    """The row of a task that waits."""
    first = joined.waiting[0].raw
    names = {name for line in joined.waiting if (name := getattr(line.log, "tenant_id", None)) is not None}
    assert joined.since is not None
    assert first.task_key is not None  # a readable line has a task
    return Waiting(
        task_key=first.task_key,
        owner_key=first.owner_key or b"",
        task_id=column_text(first.task_id or ""),
        tenant_id=min(names).encode() if names else None,
        present=joined.present,
        missing=joined.missing,
        since=joined.since,
        lines=len(joined.waiting),
    )


def expired(joined: Joined, *, longest_wait: timedelta) -> tuple[Rejection, ...]:
    """The lines of a task that waited in vain, with what they lack and since when. The same at every later moment."""
    *others, last = joined.missing
    logs = f"{', '.join(others)} and {last}" if others else last
    reason = (
        f"its {logs} log{'s' if len(joined.missing) > 1 else ''} did not come within {longest_wait.days:,} days "
        f"(joining.waiting_days): it waits since {joined.since:%Y-%m-%d %H:%M:%S} UTC. A log that comes after all "
        f"completes it"
    )
    return tuple(Rejection(raw=line.raw, gates=(INCOMPLETE_EXPIRED,), reasons=(reason,)) for line in joined.waiting)
