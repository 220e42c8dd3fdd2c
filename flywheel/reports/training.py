"""The report on training (SPEC section 11): what batches took of the pool, and what promoted models made of it."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from statistics import fmean
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.statistics import Figures, figures_of
from flywheel.pool.statistics import Tally
from flywheel.records import utc_day
from flywheel.reports.tallies import Cell, read_tallies, tally
from flywheel.rollout.promotion import CHAMPION, AliasChange, agent_id_of, history
from flywheel.training.intervals import Interval, difference

BEFORE_DAYS = 28
"""Days before a promotion in which the model that served until then is looked at."""
CONFIDENCE = 0.95
BATCHES = """
SELECT CASE WHEN distribution->'points' ?& ARRAY['sft', 'grpo'] THEN 'training' ELSE 'export' END,
    released_at IS NOT NULL, (SELECT count(*) FROM batch_points WHERE batch_id = batches.id)
FROM batches WHERE (created_at AT TIME ZONE 'UTC')::date BETWEEN %s AND %s
"""


class Promotion(Struct, frozen=True, kw_only=True):
    """A model that came to serve, held against the one that served before it, over the tasks that each was given.

    ``after`` is of its tasks from that day on, until the next promotion or the report's last day; ``before`` of the
    predecessor's in the ``BEFORE_DAYS`` before. ``change`` is of the success rate, with a 95 % interval. What cannot be
    compared is None: there was no predecessor, or one of them had no task.
    """

    version: str
    predecessor: str | None
    at: datetime
    after: Figures
    before: Figures | None
    change: Interval | None
    quality_gain: float | None


class TrainingReport(Struct, frozen=True, kw_only=True):
    """Training over the UTC days from ``first`` to ``last``, both included.

    ``batches`` counts those made, by what for; ``given_up`` those of them that were released because their runs failed,
    or by a person. ``points_consumed`` are in batches that were not. ``improved`` counts promotions whose model has
    more success than its predecessor by more than chance explains, ``worsened`` those with less.
    """

    first: date
    last: date
    batches: dict[str, int]
    given_up: int
    mean_points: float | None
    points_consumed: int
    promotions: tuple[Promotion, ...]
    improved: int
    worsened: int
    mean_quality_gain: float | None


def report_training(pool: BenchmarkPool, first: date, last: date) -> TrainingReport:
    """Report on training.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        made = connection.execute(BATCHES, (first, last)).fetchall()
        promoted = [change for change in history(pool.engine) if change.alias == CHAMPION]
        promotions = promotions_of(connection, promoted, first, last)
    gains = [promotion.quality_gain for promotion in promotions if promotion.quality_gain is not None]
    changes = [promotion.change for promotion in promotions if promotion.change is not None]
    return TrainingReport(
        first=first,
        last=last,
        batches={kind: sum(row[0] == kind for row in made) for kind in ("training", "export")},
        given_up=sum(row[1] for row in made),
        mean_points=fmean(row[2] for row in made) if made else None,
        points_consumed=sum(points for _, given_up, points in made if not given_up),
        promotions=promotions,
        improved=sum(change.low > 0 for change in changes),
        worsened=sum(change.high < 0 for change in changes),
        mean_quality_gain=fmean(gains) if gains else None,
    )


def promotions_of(
    connection: Connection[Any], promoted: Sequence[AliasChange], first: date, last: date
) -> tuple[Promotion, ...]:
    """The promotions of these days, oldest first. ``promoted`` are all there ever were."""
    tallies = read_tallies(connection, first - timedelta(days=BEFORE_DAYS), last)
    found = []
    for number, change in enumerate(promoted):
        if first <= utc_day(change.set_at) <= last:
            predecessor = promoted[number - 1].version if number else None
            following = promoted[number + 1].set_at if number + 1 < len(promoted) else None
            until = last if following is None else min(last, utc_day(following))
            found.append(promotion_of(change, predecessor, tallies, until=until))
    return tuple(found)


def promotion_of(
    change: AliasChange, predecessor: str | None, tallies: Mapping[Cell, Tally], *, until: date
) -> Promotion:
    """A promotion with what the tasks of both models say of it."""
    day = utc_day(change.set_at)
    own = agent_id_of(change.version)
    after = figures_of(tally(tallies, lambda cell: cell.agent_id == own and day <= cell.date <= until))
    before = None
    if predecessor is not None:
        other, earliest = agent_id_of(predecessor), day - timedelta(days=BEFORE_DAYS)
        before = figures_of(tally(tallies, lambda cell: cell.agent_id == other and earliest <= cell.date < day))
    rate_change = gain = None
    if before is not None and before.mean_quality is not None and after.mean_quality is not None:
        rates = (before.successes, before.tasks), (after.successes, after.tasks)
        rate_change = difference(*rates, confidence=CONFIDENCE)
        gain = after.mean_quality - before.mean_quality
    return Promotion(
        version=change.version,
        predecessor=predecessor,
        at=change.set_at,
        after=after,
        before=before,
        change=rate_change,
        quality_gain=gain,
    )
