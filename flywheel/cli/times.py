"""Days and moments as people write them on the command line: in UTC, or with their zone."""

from datetime import UTC, date, datetime
from typing import Any

import click


class Day(click.ParamType):
    """A UTC day: 2026-01-05."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """The day, or wrong usage."""
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no day; write it as 2026-01-05", param, ctx)


class Moment(click.ParamType):
    """A moment as ``--json`` and the API write it; without a zone it is UTC, without a time the day's begin."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment in UTC, or wrong usage."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no time; write it as 2026-01-05 or 2026-01-05T10:15:00Z, in UTC", param, ctx)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


DAY = Day()
MOMENT = Moment()
