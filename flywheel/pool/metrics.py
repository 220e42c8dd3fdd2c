"""The pool's metrics in Prometheus' text format: a table of what is measured, read in one transaction.

What the ledger can take back is a gauge, though it mostly grows: a day that runs again counts its lines anew, retention
and erasure remove them, and Prometheus would take a counter that falls for one that began at 0. Counters are what is
never taken back: batches that were made and halts that were opened. No label names a tenant, a task or a day.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct
from psycopg import Connection, sql

from flywheel.errors import PoolError
from flywheel.pool.alerts import readings
from flywheel.pool.gates import GATES, WARNING_GATES
from flywheel.pool.health import ALARMS, judge_health
from flywheel.pool.intake import STALE_DAYS
from flywheel.pool.lake_readings import LakeReading, is_old, last_reading, renewed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import spent_tenants
from flywheel.pool.quarantine import State
from flywheel.pool.tiers import Tier
from flywheel.pool.waiting import COUNTS

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]

RECENT = timedelta(hours=24)


class Measure(Struct, frozen=True, kw_only=True):
    """A metric out of PostgreSQL. The query's rows are label values and the value; ``always`` are there though 0."""

    name: str
    help: str
    query: sql.SQL | sql.Composed
    labels: Labels = ()
    always: tuple[Labels, ...] = ()
    kind: Literal["gauge", "counter"] = "gauge"


TIERS: tuple[Labels, ...] = tuple((tier,) for tier in get_args(Tier))
MEASURES: tuple[Measure, ...] = (
    Measure(
        name="flywheel_pool_points",
        help="Points that a tier holds; in the cold tier those that its aggregates count.",
        labels=("tier",),
        always=TIERS,
        query=sql.SQL(
            "SELECT tier, sum(points) FROM tier_days JOIN days USING (day) WHERE tier_days.rows > 0 GROUP BY tier"
        ),
    ),
    Measure(
        name="flywheel_pool_tier_days",
        help="Days that a tier holds rows of.",
        labels=("tier",),
        always=TIERS,
        query=sql.SQL("SELECT tier, count(*) FROM tier_days WHERE rows > 0 GROUP BY tier"),
    ),
    Measure(
        name="flywheel_pool_lines",
        help="Lines of all days by what became of them when their day was last validated.",
        labels=("outcome",),
        query=sql.SQL(
            "SELECT outcome, lines FROM (SELECT coalesce(sum(lines_in_points), 0) AS p, coalesce(sum(quarantined), 0)"
            " AS q, coalesce(sum(duplicates), 0) AS d, coalesce(sum(waiting), 0) AS w FROM days) AS sums,"
            " LATERAL (VALUES ('in_points', p), ('quarantined', q), ('duplicates', d), ('waiting', w))"
            " AS outcomes (outcome, lines)"
        ),
    ),
    Measure(
        name="flywheel_pool_gate_failed_lines",
        help="Lines of all days that became no point, by the gates that they failed; one line may fail several.",
        labels=("gate",),
        always=tuple((gate.name,) for gate in GATES if gate.severity == "quarantine"),
        query=sql.SQL("SELECT key, sum(value::bigint) FROM days, jsonb_each_text(report->'reasons') GROUP BY key"),
    ),
    Measure(
        name="flywheel_pool_gate_warned_points",
        help="Points of all days that do not hold a gate that only warns.",
        labels=("gate",),
        always=tuple((name,) for name in sorted(WARNING_GATES)),
        query=sql.SQL("SELECT key, sum(value::bigint) FROM days, jsonb_each_text(report->'warnings') GROUP BY key"),
    ),
    Measure(
        name="flywheel_pool_quarantined_lines",
        help="Lines in quarantine by what a reviewer decided.",
        labels=("state",),
        always=tuple((state,) for state in get_args(State)),
        query=sql.SQL("SELECT state, count(*) FROM quarantine GROUP BY state"),
    ),
    Measure(
        name="flywheel_pool_privacy_violations",
        help="Violations that the last privacy checks found in points that are still there.",
        query=sql.SQL("SELECT coalesce(sum(privacy_violations), 0) FROM days WHERE points_removed_at IS NULL"),
    ),
    Measure(
        name="flywheel_pool_unverified_days",
        help="Days with points whose privacy check has not run since they were made.",
        query=sql.SQL(
            "SELECT count(*) FROM days WHERE points > 0 AND privacy_violations IS NULL AND points_removed_at IS NULL"
        ),
    ),
    Measure(
        name="flywheel_pool_open_halts",
        help="Days that halt the pool until a person lifts them.",
        query=sql.SQL("SELECT count(*) FROM halts WHERE lifted_at IS NULL"),
    ),
    Measure(
        name="flywheel_pool_halts",
        help="Halts that were ever opened.",
        kind="counter",
        query=sql.SQL("SELECT count(*) FROM halts"),
    ),
    Measure(
        name="flywheel_pool_batches",
        help="Batches that were ever made: for the training loop, or exports for other trainers.",
        kind="counter",
        labels=("kind",),
        always=(("training",), ("export",)),
        query=sql.SQL(
            "SELECT CASE WHEN distribution->'points' ?& ARRAY['sft', 'grpo'] THEN 'training' ELSE 'export' END,"
            " count(*) FROM batches GROUP BY 1"
        ),
    ),
    Measure(
        name="flywheel_pool_waiting_tasks",
        help="Tasks that lack a log, by the logs they lack and by how long they have waited.",
        labels=("missing", "age"),
        query=COUNTS,
    ),
    Measure(
        name="flywheel_pool_longest_wait_seconds",
        help="Seconds that the task waits that has waited longest; absent where none waits.",
        query=sql.SQL(
            "SELECT greatest(0, extract(epoch FROM %(now)s - min(since))) FROM waiting_tasks HAVING count(*) > 0"
        ),
    ),
    Measure(
        name="flywheel_pool_expired_tasks",
        help="Tasks of all days that are in quarantine because a log did not come in time.",
        query=sql.SQL("SELECT coalesce(sum((report->>'expired_tasks')::bigint), 0) FROM days"),
    ),
    Measure(
        name="flywheel_pool_watermark_timestamp_seconds",
        help="All that collectors wrote before it was taken in; absent before anybody looked.",
        query=sql.SQL("SELECT extract(epoch FROM at) FROM watermark"),
    ),
    Measure(
        name="flywheel_pool_watermark_observed_timestamp_seconds",
        help="When the collectors' folder was last looked at.",
        query=sql.SQL("SELECT extract(epoch FROM observed_at) FROM watermark"),
    ),
    Measure(
        name="flywheel_pool_open_segments",
        help="Segments that collectors were writing when their folder was last looked at.",
        query=sql.SQL("SELECT open_segments FROM watermark"),
    ),
    Measure(
        name="flywheel_pool_segment_lines",
        help="Lines in indexed segments.",
        query=sql.SQL("SELECT coalesce(sum(lines), 0) FROM segments"),
    ),
    Measure(
        name="flywheel_pool_segment_bytes",
        help="Bytes of the lines in indexed segments.",
        query=sql.SQL("SELECT coalesce(sum(bytes), 0) FROM segments"),
    ),
    Measure(
        name="flywheel_pool_torn_frames",
        help="Frames of indexed segments that could not be read.",
        query=sql.SQL("SELECT coalesce(sum(torn), 0) FROM segments"),
    ),
    Measure(
        name="flywheel_pool_lag_seconds",
        help="Seconds since the newest indexed segment was written; absent before the first.",
        query=sql.SQL(
            "SELECT greatest(0, extract(epoch FROM %(now)s - max(written_at))) FROM segments HAVING count(*) > 0"
        ),
    ),
    Measure(
        name="flywheel_pool_days",
        help="Days that the pool knows.",
        query=sql.SQL("SELECT count(*) FROM days"),
    ),
    Measure(
        name="flywheel_pool_stale_days",
        help="Days whose lines or reviews changed since they last went through the whole pool.",
        query=sql.SQL("SELECT count(*) FROM ({}) AS stale").format(sql.SQL(STALE_DAYS)),
    ),
    Measure(
        name="flywheel_judge_findings",
        help="Findings of judges that were ever made: scores, what was kept from earlier, abstentions by kind.",
        kind="counter",
        labels=("judge", "criterion", "outcome"),
        query=sql.SQL("SELECT judge, criterion, outcome, findings FROM judge_counts"),
    ),
    Measure(
        name="flywheel_pool_agent_tasks",
        help="Tasks that an agent did in the last 24 hours.",
        labels=("agent", "task_type"),
        query=sql.SQL(
            "SELECT agent_id, task_type, sum(tasks) FROM agent_statistics WHERE hour >= %(recent)s AND hour <= %(now)s"
            " GROUP BY agent_id, task_type"
        ),
    ),
    Measure(
        name="flywheel_pool_agent_success_ratio",
        help="Fraction of an agent's tasks of the last 24 hours that succeeded, 0-1.",
        labels=("agent", "task_type"),
        query=sql.SQL(
            "SELECT agent_id, task_type, sum(successes) / sum(tasks) FROM agent_statistics WHERE hour >= %(recent)s"
            " AND hour <= %(now)s GROUP BY agent_id, task_type"
        ),
    ),
    Measure(
        name="flywheel_pool_agent_quality_ratio",
        help="Mean overall score of an agent's tasks of the last 24 hours, 0-1.",
        labels=("agent", "task_type"),
        query=sql.SQL(
            "SELECT agent_id, task_type, sum(quality_sum) / sum(tasks) FROM agent_statistics WHERE hour >= %(recent)s"
            " AND hour <= %(now)s GROUP BY agent_id, task_type"
        ),
    ),
)


class Snapshot:
    """Families of samples as a collector of a registry of its own."""

    def __init__(self, families: Iterable["Metric"]) -> None:
        self.families = tuple(families)

    def collect(self) -> "Iterable[Metric]":
        """The families, as they were read."""
        return self.families


def render_metrics(pool: BenchmarkPool, *, now: datetime | None = None) -> bytes:
    """The metrics as ``prometheus_client.CONTENT_TYPE_LATEST``.

    What PostgreSQL knows is of one moment. What only the lake knows was read when the warm tier last changed, or is
    read now if that is 15 minutes ago, by one at a time: others meanwhile get the old reading and its age. Where it
    cannot be read, these samples are absent and ``flywheel_pool_lake_readable`` is 0.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Snapshot(families(pool, now=now or pool.now())))
    return generate_latest(registry)


def families(pool: BenchmarkPool, *, now: datetime) -> Iterator["Metric"]:
    """Every metric with its samples."""
    began = time.perf_counter()
    with pool.transaction() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield from (measured(connection, measure, now=now) for measure in MEASURES)
        yield active_alerts(pool, connection, now=now)
        yield family(
            "flywheel_pool_privacy_spent_tenants",
            "Tenants whose privacy budget of this period does not cover another export with the policy's noise.",
            {(): float(spent_tenants(connection, pool.settings, now=now))},
        )
        reading = last_reading(connection)
    yield from of_the_lake(pool, reading, now=now)
    yield family(
        "flywheel_pool_reading_seconds", "How long it took to read all this.", {(): time.perf_counter() - began}
    )


def measured(connection: Connection[Any], measure: Measure, *, now: datetime) -> "Metric":
    """One metric of the table."""
    rows = connection.execute(measure.query, {"now": now, "recent": now - RECENT, "day": None})
    samples = dict.fromkeys(measure.always, 0.0) | {tuple(labels): float(value) for *labels, value in rows}
    return family(measure.name, measure.help, samples, labels=measure.labels, kind=measure.kind)


def active_alerts(pool: BenchmarkPool, connection: Connection[Any], *, now: datetime) -> "Metric":
    """How many alerts of each kind are active."""
    limits = pool.settings.health
    samples: dict[Labels, float] = {(alarm.name, alarm.severity): 0.0 for alarm in ALARMS}
    for alert in judge_health(readings(connection, limits, now=now), limits):
        samples[alert.name, alert.severity] += 1
    return family("flywheel_pool_alerts_active", "Alerts that are active.", samples, labels=("alert", "severity"))


def of_the_lake(pool: BenchmarkPool, reading: LakeReading | None, *, now: datetime) -> Iterator["Metric"]:
    """What only the lake knows, asked anew where the last reading is old; or that it cannot be read."""
    if is_old(reading, now=now):
        try:
            reading = renewed(pool, reading, now=now)
        except PoolError:
            reading = None
    readable: dict[Labels, float] = {(): float(reading is not None)}
    yield family("flywheel_pool_lake_readable", "Whether the lake could be read when it was last asked.", readable)
    if reading is None:
        return
    yield family(
        "flywheel_pool_lake_read_timestamp_seconds",
        "When the lake was read for the samples of its files and of the next batch.",
        {(): reading.read_at.timestamp()},
    )
    yield family(
        "flywheel_pool_lake_reading_age_seconds",
        "How long ago that was.",
        {(): max((now - reading.read_at).total_seconds(), 0)},
    )
    yield family(
        "flywheel_pool_tier_bytes",
        "Bytes of a tier on disk; without versions that were replaced, with PostgreSQL's indexes.",
        {(tier,): float(size) for tier, size in reading.tier_bytes.items()},
        labels=("tier",),
    )
    phases = reading.outlook.phases
    yield family(
        "flywheel_pool_batch_points_missing",
        "Points that a phase of the next training batch still lacks.",
        {(phase.phase,): float(max(phase.needed - phase.points, 0)) for phase in phases},
        labels=("phase",),
    )
    yield family(
        "flywheel_pool_next_batch_seconds",
        "Seconds until a phase of the next batch has its points at the present rate; +Inf for never.",
        {(phase.phase,): inf if phase.days is None else 86_400 * phase.days for phase in phases},
        labels=("phase",),
    )


def family(
    name: str,
    help_text: str,
    samples: Mapping[Labels, float],
    *,
    labels: Labels = (),
    kind: Literal["gauge", "counter"] = "gauge",
) -> "Metric":
    """A family of Prometheus' client; counters get their suffix ``_total`` from it."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    of_kind = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
    made = of_kind(name, help_text, labels=labels)
    for values, number in samples.items():
        made.add_metric(values, number)
    return made
