"""How the pool goes: what plots show of the last 30 days, how large the tiers are, when the next batch can be made."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.gates import GATES, WARNING_GATES
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import RawDay
from flywheel.pool.readiness import PHASES, missing, offered_now, phase_readiness, readiness_of
from flywheel.pool.schemas import COLD, WARM
from flywheel.pool.selection import Offer, choose, rules_of
from flywheel.pool.tiers import Tier
from flywheel.pool.validation import ValidationReport

TREND_DAYS = 30
RATE_DAYS = 7
SHORTEST = timedelta(hours=1)  # a rate over less says nothing
TABLE_OF: dict[Tier, str] = {"warm": WARM, "cold": COLD}


class GateTrend(Struct, frozen=True, kw_only=True):
    """How the gates were held. ``failed_tasks`` counts those of the day by gate, warnings included.

    ``passed`` is the fraction of the day's judged tasks that held each gate, and ``clean`` the fraction that held all
    gates that quarantine, by day; days without a judged task are not in it.
    """

    passed: dict[str, float]
    failed_tasks: dict[str, int]
    clean: dict[date, float]


class TierSize(Struct, frozen=True, kw_only=True):
    """What a tier holds now. The bytes are on disk: compressed, with indexes in PostgreSQL."""

    tier_rows: int
    tier_days: int
    tier_bytes: int


class PhaseOutlook(Struct, frozen=True, kw_only=True):
    """Points of a phase, and when there are enough: ``days`` is 0 where there are, None where never at this rate."""

    phase: str
    points: int
    needed: int
    per_day: float
    days: float | None


class Outlook(Struct, frozen=True, kw_only=True):
    """When the next batch has its points. ``missing`` is all that it lacks now, points and other things, in words."""

    phases: tuple[PhaseOutlook, ...]
    missing: tuple[str, ...]

    @property
    def days(self) -> float | None:
        """Days until every phase has its points; None where one never has at this rate."""
        waits = [phase.days for phase in self.phases if phase.days is not None]
        return max(waits) if len(waits) == len(self.phases) else None


def days_until(day: date) -> tuple[date, ...]:
    """The days a trend shows, the given one last."""
    return tuple(day - timedelta(days=back) for back in range(TREND_DAYS - 1, -1, -1))


def volume_trend(pool: BenchmarkPool, raw: RawDay) -> dict[date, int]:
    """Lines by day: the day's as just counted, the others' as last validated.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    shown = days_until(raw.day)
    with pool.transaction() as connection:
        known = dict(
            connection.execute(
                "SELECT day, lines FROM days WHERE day BETWEEN %s AND %s", (shown[0], raw.day)
            ).fetchall()
        )
    return {day: known.get(day, 0) for day in shown} | {raw.day: raw.lines}


def gate_trend(pool: BenchmarkPool, report: ValidationReport) -> GateTrend:
    """How the gates were held by the day's tasks. A task that a reviewer let through counts as one that held them.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    first = days_until(report.day)[0]
    with pool.transaction() as connection:
        failed = dict(
            connection.execute(
                "SELECT gate, count(DISTINCT (coalesce(task_id, id), owner_key)) FROM quarantine, unnest(gates) AS gate"
                " WHERE day = %s AND state <> 'approved' GROUP BY gate",
                (report.day,),
            ).fetchall()
        )
        clean = dict(
            connection.execute(
                "SELECT day, (report->>'clean_fraction')::double precision FROM days WHERE day BETWEEN %s AND %s"
                " AND (report->>'points')::bigint + (report->>'quarantined_tasks')::bigint > 0 ORDER BY day",
                (first, report.day),
            ).fetchall()
        )
    failed |= report.warnings
    return GateTrend(passed=passed_fractions(report, failed), failed_tasks=failed, clean=clean)


def passed_fractions(report: ValidationReport, failed: Mapping[str, int]) -> dict[str, float]:
    """The fraction of tasks that held each gate judged so far, in the table's order; empty where none was judged.

    Gates that quarantine are judged of all tasks, those that warn of points only.
    """
    judged = report.points + report.quarantined_tasks
    totals = {
        gate.name: report.points if gate.name in WARNING_GATES else judged
        for gate in GATES
        if gate.severity != "critical"
    }
    return {name: max(0.0, 1 - failed.get(name, 0) / total) for name, total in totals.items() if total}


def success_trend(pool: BenchmarkPool, day: date) -> dict[str, dict[date, float]]:
    """Success rate by agent and day, the agent with the most tasks first; days without a task are not in it.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT agent_id, day, sum(successes) / sum(tasks), sum(sum(tasks)) OVER (PARTITION BY agent_id) AS total"
            " FROM agent_statistics WHERE day BETWEEN %s AND %s GROUP BY agent_id, day"
            " ORDER BY total DESC, agent_id, day",
            (days_until(day)[0], day),
        ).fetchall()
    rates: dict[str, dict[date, float]] = defaultdict(dict)
    for agent_id, of_day, rate, _ in rows:
        rates[agent_id][of_day] = float(rate)
    return dict(rates)


def tier_trend(pool: BenchmarkPool, tier: Tier, day: date) -> dict[date, int]:
    """Rows of a tier by day.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    shown = days_until(day)
    with pool.transaction() as connection:
        known = dict(
            connection.execute(
                "SELECT day, rows FROM tier_days WHERE tier = %s AND day BETWEEN %s AND %s", (tier, shown[0], day)
            ).fetchall()
        )
    return {of_day: known.get(of_day, 0) for of_day in shown}


def tier_size(pool: BenchmarkPool, tier: Tier) -> TierSize:
    """What a tier holds now: rows and days by the ledger, bytes by PostgreSQL or the lake's own log.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        row = connection.execute(
            "SELECT coalesce(sum(rows), 0), count(*), pg_total_relation_size('hot_points') FROM tier_days"
            " WHERE tier = %s AND rows > 0",
            (tier,),
        ).fetchone()
    assert row is not None
    rows, days, hot_bytes = (int(value) for value in row)
    size = hot_bytes if tier == "hot" else pool.lake.size_bytes(TABLE_OF[tier])
    return TierSize(tier_rows=rows, tier_days=days, tier_bytes=size)


def batch_outlook(pool: BenchmarkPool, *, now: datetime) -> Outlook:
    """When the next batch has its points, if they come as they did over the last 7 days.

    Where the last batch or the first point was later than that, as they did since then. What came is the difference
    between the batch that could be made now and the one that could be made without the points of that time: another
    answer to a task that the pool has already brings no batch nearer.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    criteria = pool.settings.batch
    rules = rules_of(criteria)
    with pool.transaction() as connection:
        offers, marked = offered_now(pool, connection, now=now)
        choice = choose(offers, criteria=criteria, marked=marked, now=now)
        lacking = missing(readiness_of(pool, connection, choice), criteria)
        began = [now - timedelta(days=RATE_DAYS), *first_of(offers)]
        starts = {phase: max([*began, *last_batch(connection, phase, now=now)]) for phase in PHASES}
    without = {
        start: choose([offer for offer in offers if offer.timestamp < start], criteria=criteria, marked=marked, now=now)
        for start in starts.values()
    }
    phases = tuple(
        phase_outlook(
            phase,
            points=phase_readiness(getattr(choice, phase), rules[phase]).points,
            before=phase_readiness(getattr(without[starts[phase]], phase), rules[phase]).points,
            needed=getattr(criteria, phase).points,
            time=max(now - starts[phase], SHORTEST),
        )
        for phase in PHASES
    )
    return Outlook(phases=phases, missing=lacking)


def first_of(offers: Iterable[Offer]) -> Iterator[datetime]:
    """When the first of these points was, if there are any."""
    first = min((offer.timestamp for offer in offers), default=None)
    if first is not None:
        yield first


def last_batch(connection: Connection[Any], phase: str, *, now: datetime) -> Iterator[datetime]:
    """When a batch last took points of a phase and kept them, if one did."""
    row = connection.execute(
        "SELECT max(created_at) FROM batches"
        " WHERE released_at IS NULL AND created_at <= %s AND distribution->'points' ? %s",
        (now, phase),
    ).fetchone()
    if row and row[0]:
        yield row[0]


def phase_outlook(phase: str, *, points: int, before: int, needed: int, time: timedelta) -> PhaseOutlook:
    """When a phase has its points; ``before`` is how many there would be without those that came in the ``time``."""
    per_day = max(points - before, 0) / (time / timedelta(days=1))
    days = 0.0 if points >= needed else (needed - points) / per_day if per_day else None
    return PhaseOutlook(phase=phase, points=points, needed=needed, per_day=per_day, days=days)
