"""Validation of a day: its lines become points, quarantine or waiting, and every line is accounted for."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

import msgspec
from msgspec import Struct
from psycopg import Connection
from psycopg.types.json import Jsonb

from flywheel.errors import PoolError
from flywheel.pool.digests import Digest
from flywheel.pool.expiry import INCOMPLETE_EXPIRED, Waiting
from flywheel.pool.files import LakeFile
from flywheel.pool.gates import Surroundings
from flywheel.pool.history import History, history_before
from flywheel.pool.judging import REJECTED, Judge, JudgedPart, Ledger, PartJob, Rejected, judge_part
from flywheel.pool.parts import TASKS_A_PART, gathered, sort_segment
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import DayPlan, plan_day, segment_jobs
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import POINT_COLUMNS, VALIDATED
from flywheel.pool.workers import mapped


class ValidationReport(Struct, frozen=True, kw_only=True):
    """What became of a day. ``points`` and ``…_tasks`` count tasks; all that is in ``outcome`` counts lines.

    Lines in = lines in points + quarantined + duplicates + waiting, always. Fractions are 0–1, and 1 for an empty day.
    ``expired_tasks`` are in quarantine because a log did not come in time; no gate judged them, so that they are in
    no fraction of tasks. ``missing`` counts waiting tasks by the logs they lack.
    """

    day: date
    lines: int
    lines_in_points: int
    quarantined: int
    duplicates: int
    waiting: int
    points: int
    quarantined_tasks: int
    waiting_tasks: int
    expired_tasks: int = 0
    clean_fraction: float
    schema_valid_fraction: float
    rl_ready_fraction: float
    duplicate_fraction: float
    without_first_action: int
    released: int
    reasons: dict[str, int]
    warnings: dict[str, int]
    missing: dict[str, int] = {}
    digest: str

    @property
    def outcome(self) -> dict[str, int]:
        """Lines by what became of them; they add up to ``lines``."""
        return {
            "in points": self.lines_in_points,
            "quarantined": self.quarantined,
            "duplicates": self.duplicates,
            "waiting": self.waiting,
        }


def validate_day(
    pool: BenchmarkPool, day: date, *, now: datetime, tasks_a_part: int = TASKS_A_PART
) -> ValidationReport:
    """Join and judge a day's lines, write its points, its quarantine and its account.

    The points replace the day's partition of the lake in one commit; quarantine and account follow in one transaction.
    A kill between the two leaves the day stale, and the next run makes both anew. Where the day is larger than a part
    several processes judge it side by side.

    Raises:
        PoolError: the lake cannot be used, or lines were lost on the way.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(f"validation:{day}") as connection:
        pool.keep_segments(connection)
        plan = plan_day(pool, day, tasks_a_part=tasks_a_part)
        judge_of_day = Judge(
            day=day,
            around=surroundings(pool, history := history_before(connection, day), now=now),
            history=history,
            longest_wait=pool.settings.joining.longest_wait,
            approved=approved_lines(connection, day),
            rejected=rejected_lines(connection, day),
        )
        ledger = Ledger()
        digest = Digest()
        create_rejected(connection)
        connection.execute("DELETE FROM waiting_tasks WHERE day = %s", (day,))
        files = account(connection, judged_parts(pool, plan, judge_of_day), day=day, ledger=ledger, digest=digest)
        pool.replace_files(VALIDATED, day, files, schema=arrow_schema(POINT_COLUMNS))
        report = report_of(day, ledger, digest=digest.hexdigest())
        replace_quarantine(connection, day)
        record(connection, report, revision=plan.revision, now=now)
    return report


def surroundings(pool: BenchmarkPool, history: History, *, now: datetime) -> Surroundings:
    """What the gates judge against."""
    return Surroundings(
        now=now,
        task_types=frozenset(pool.settings.task_types),
        latency_ms_p99=history.latency_ms_p99,
        tokens_p99=history.tokens_p99,
    )


def judged_parts(pool: BenchmarkPool, plan: DayPlan, judge_of_day: Judge) -> Iterator[JudgedPart]:
    """What became of each part of a day, a few of them in memory at a time."""
    parts = len(plan.owners)
    processes = pool.processes if parts > 1 else 1
    sorted_segments = mapped(sort_segment, segment_jobs(pool, plan), processes=processes)
    with gathered(sorted_segments, parts=parts, folder=pool.settings.home) as contents:
        jobs = (
            PartJob(judge=judge_of_day, segments_dir=pool.settings.segments_dir, chunks=chunks, owners=owners)
            for chunks, owners in zip(contents, plan.owners, strict=True)
        )
        yield from mapped(judge_part, jobs, processes=processes)


def account(
    connection: Connection[Any], parts: Iterable[JudgedPart], *, day: date, ledger: Ledger, digest: Digest
) -> Iterator[LakeFile]:
    """The points of the parts; on the way the ledger and the digest fill, and what is turned away or waits goes to
    PostgreSQL.

    Raises:
        PoolError: lines were lost on the way; it is raised before the points are committed.
    """
    for part in parts:
        ledger.add(part.ledger)
        copy_rejected(connection, part.rejected)
        copy_waiting(connection, part.waiting, day=day)
        digest.update(part.digest)
        if part.file is not None:
            yield part.file
    ledger.check(day)


def report_of(day: date, ledger: Ledger, *, digest: str) -> ValidationReport:
    """The account as a report."""
    distinct = ledger.lines - ledger.duplicates
    return ValidationReport(
        day=day,
        lines=ledger.lines,
        lines_in_points=ledger.lines_in_points,
        quarantined=ledger.quarantined,
        duplicates=ledger.duplicates,
        waiting=ledger.waiting,
        points=ledger.points,
        quarantined_tasks=ledger.quarantined_tasks,
        waiting_tasks=ledger.waiting_tasks,
        expired_tasks=ledger.expired_tasks,
        clean_fraction=fraction(ledger.points, ledger.points + ledger.quarantined_tasks),
        schema_valid_fraction=fraction(distinct - ledger.unreadable, distinct),
        rl_ready_fraction=fraction(ledger.rl_ready, ledger.points),
        duplicate_fraction=ledger.duplicates / ledger.lines if ledger.lines else 0.0,
        without_first_action=ledger.without_first_action,
        released=ledger.released,
        reasons=dict(ledger.reasons),
        warnings=dict(ledger.warnings),
        missing=dict(ledger.missing),
        digest=digest,
    )


def fraction(part: int, whole: int) -> float:
    """The share of a part, 0–1; nothing of nothing is all of it."""
    return part / whole if whole else 1.0


def approved_lines(connection: Connection[Any], day: date) -> frozenset[str]:
    """Ids of the day's quarantined lines that a reviewer approved."""
    rows = connection.execute("SELECT id FROM quarantine WHERE day = %s AND state = 'approved'", (day,))
    return frozenset(row[0] for row in rows)


def rejected_lines(connection: Connection[Any], day: date) -> frozenset[str]:
    """Ids of the day's quarantined lines that a reviewer rejected while their task lacked a log."""
    rows = connection.execute(
        "SELECT id FROM quarantine WHERE day = %s AND state = 'rejected' AND gates && %s",
        (day, [INCOMPLETE_EXPIRED, REJECTED.gate]),
    )
    return frozenset(row[0] for row in rows)


def create_rejected(connection: Connection[Any]) -> None:
    """Make the table that the day's turned-away lines gather in until the transaction ends."""
    connection.execute("CREATE TEMPORARY TABLE rejected (LIKE quarantine INCLUDING DEFAULTS) ON COMMIT DROP")


def copy_rejected(connection: Connection[Any], lines: Iterable[Rejected]) -> None:
    """Let more lines gather."""
    with connection.cursor().copy(
        "COPY rejected (id, day, task_id, owner_key, gates, reasons, line) FROM STDIN"
    ) as copy:
        for line in lines:
            gates, reasons = list(line.gates), list(line.reasons)
            copy.write_row((line.id, line.day, line.task_id, line.owner_key, gates, reasons, line.line))


def copy_waiting(connection: Connection[Any], tasks: Iterable[Waiting], *, day: date) -> None:
    """Enter more of the day's waiting tasks."""
    with connection.cursor().copy(
        "COPY waiting_tasks (day, task_key, owner_key, task_id, tenant_id, present, missing, since, lines) FROM STDIN"
    ) as copy:
        for task in tasks:
            names = (task.task_key, task.owner_key, task.task_id, task.tenant_id)
            copy.write_row((day, *names, list(task.present), list(task.missing), task.since, task.lines))


def replace_quarantine(connection: Connection[Any], day: date) -> None:
    """Make what gathered the day's quarantined lines; reviews of lines are kept, also of those that were released."""
    connection.execute(
        "DELETE FROM quarantine WHERE day = %s AND state <> 'approved' AND id NOT IN (SELECT id FROM rejected)", (day,)
    )
    connection.execute(
        "INSERT INTO quarantine SELECT DISTINCT ON (id) * FROM rejected"
        " ON CONFLICT (id) DO UPDATE SET owner_key = excluded.owner_key, gates = excluded.gates,"
        " reasons = excluded.reasons"
    )


def record(connection: Connection[Any], report: ValidationReport, *, revision: int, now: datetime) -> None:
    """Enter the day's account into the ledger; what was verified of the day before no longer is."""
    connection.execute(
        "INSERT INTO days (day, revision, changed_at, validated_revision, validated_at, lines, lines_in_points,"
        " quarantined, duplicates, waiting, points, report)"
        " VALUES (%(day)s, %(revision)s, %(now)s, %(revision)s, %(now)s, %(lines)s, %(lines_in_points)s,"
        " %(quarantined)s, %(duplicates)s, %(waiting)s, %(points)s, %(report)s)"
        " ON CONFLICT (day) DO UPDATE SET validated_revision = excluded.validated_revision,"
        " validated_at = excluded.validated_at, lines = excluded.lines, lines_in_points = excluded.lines_in_points,"
        " quarantined = excluded.quarantined, duplicates = excluded.duplicates, waiting = excluded.waiting,"
        " points = excluded.points, report = excluded.report",
        {
            **msgspec.structs.asdict(report),
            "report": Jsonb(msgspec.to_builtins(report)),
            "revision": revision,
            "now": now,
        },
    )


def last_report(pool: BenchmarkPool, day: date) -> ValidationReport:
    """The account of a day as it was last validated.

    Raises:
        PoolError: the day was never validated.
    """
    with pool.transaction() as connection:
        row = connection.execute("SELECT report FROM days WHERE day = %s", (day,)).fetchone()
    if row is None or row[0] is None:
        raise PoolError(f"day {day} was never validated; materialize validated_data_points for it first")
    return msgspec.convert(row[0], ValidationReport)
