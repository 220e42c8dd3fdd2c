"""Days and moments as people write them on the command line; ``--help`` shows these types by their names."""

from datetime import UTC, date, datetime

import click


def day(written: str) -> date:
    """A UTC day, or wrong usage."""
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise click.BadParameter(f"{written!r} is no day; write it as 2026-01-05") from None


def moment(written: str) -> datetime:
    """A moment in UTC, or wrong usage: without a zone it is UTC, without a time the day's begin."""
    try:
        found = datetime.fromisoformat(written)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter where it is no year of ours in UTC
        raise click.BadParameter(
            f"{written!r} is no time; write it as 2026-01-05 or 2026-01-05T10:15:00Z, in UTC"
        ) from None
