from datetime import UTC, date, datetime

import click
import pytest

from flywheel.cli import times


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-01-05", datetime(2026, 1, 5, tzinfo=UTC)),
        ("2026-01-05 10:15:00", datetime(2026, 1, 5, 10, 15, tzinfo=UTC)),
        ("2026-01-05T10:15:00", datetime(2026, 1, 5, 10, 15, tzinfo=UTC)),
        ("2026-01-05T10:15:00.250000Z", datetime(2026, 1, 5, 10, 15, 0, 250_000, tzinfo=UTC)),
        ("2026-01-05T11:15:00+01:00", datetime(2026, 1, 5, 10, 15, tzinfo=UTC)),
    ],
)
def test_a_moment_is_read_as_the_api_and_json_write_it(written: str, meant: datetime) -> None:
    found = times.moment(written)
    assert found == meant
    assert found.tzinfo is UTC


def test_a_day_is_read() -> None:
    assert times.day("2026-01-05") == date(2026, 1, 5)


def test_what_is_neither_says_how_it_is_written() -> None:
    with pytest.raises(click.BadParameter, match="'2026-99-01' is no day; write it as 2026-01-05"):
        times.day("2026-99-01")
    with pytest.raises(click.BadParameter, match="'yesterday' is no time; write it as 2026-01-05 or 2026-01-05T"):
        times.moment("yesterday")
    with pytest.raises(click.BadParameter, match=r"'0001-01-01T00:00:00\+01:00' is no time"):
        times.moment("0001-01-01T00:00:00+01:00")
