"""Validation of a day: its lines become points, quarantine or waiting, and every line is accounted for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct
from psycopg import Connection
from psycopg.types.json import Jsonb

from flywheel.errors import PoolError
from flywheel.pool.gates import WAIVABLE_GATES, Finding, Severity, Surroundings, judge
from flywheel.pool.joining import Joined, Rejection, Triple, join, point_of
from flywheel.pool.parts import MAX_PARTS, sorted_into_parts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import DayPlan, RawLine, plan_day, read_day
from flywheel.pool.rows import Row, RowDigest, arrow_schema, column_text, row_of
from flywheel.pool.schemas import POINT_COLUMNS, VALIDATED
from flywheel.pool.statistics import History, history_before

TASKS_IN_MEMORY = 5_000
DOOR_GATES = frozenset({"complete", "types", "bounds"})


class ValidationReport(Struct, frozen=True, kw_only=True):
    """What became of a day. ``points`` and ``…_tasks`` count tasks; all that is in ``outcome`` counts lines.

    Lines in = lines in points + quarantined + duplicates + waiting, always. Fractions are 0–1, and 1 for an empty day.
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
    clean_fraction: float
    schema_valid_fraction: float
    rl_ready_fraction: float
    duplicate_fraction: float
    without_first_action: int
    released: int
    reasons: dict[str, int]
    warnings: dict[str, int]
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


class Ledger(Struct):
    """The running account of a day, in lines and in tasks."""

    lines: int = 0
    lines_in_points: int = 0
    duplicates: int = 0
    waiting: int = 0
    points: int = 0
    quarantined_tasks: int = 0
    waiting_tasks: int = 0
    rl_ready: int = 0
    without_first_action: int = 0
    released: int = 0
    warnings: Counter[str] = msgspec.field(default_factory=Counter)
    rejections: list[Rejection] = []

    def check(self, day: date) -> None:
        """Hold the account against the law.

        Raises:
            PoolError: lines were lost or invented.
        """
        accounted = self.lines_in_points + len(self.rejections) + self.duplicates + self.waiting
        if accounted != self.lines:
            raise PoolError(
                f"day {day}: {self.lines:,} lines came in, {accounted:,} are accounted for "
                f"({self.lines_in_points:,} in points, {len(self.rejections):,} quarantined, {self.duplicates:,} "
                f"duplicates, {self.waiting:,} waiting). Nothing was written; this is a fault of the pool, "
                f"please report it."
            )


class Judge(Struct, frozen=True, kw_only=True):
    """What a day's tasks are judged with. ``approved`` are quarantined lines that a reviewer released."""

    day: date
    around: Surroundings
    history: History
    approved: frozenset[str]

    def row(self, joined: Joined, ledger: Ledger) -> Row | None:
        """Account for one task; its row if it is a point."""
        ledger.duplicates += joined.duplicates
        ledger.rejections += joined.rejections
        if joined.triple is not None:
            return self.row_of_triple(joined.triple, ledger)
        if joined.waiting:
            ledger.waiting += len(joined.waiting)
            ledger.waiting_tasks += 1
        else:
            ledger.quarantined_tasks += 1
        return None

    def row_of_triple(self, triple: Triple, ledger: Ledger) -> Row | None:
        """The row of a joined task that passes its gates, or that a reviewer let through."""
        findings = judge(triple, self.around)
        failed = gates_of(findings, "quarantine")
        warned = gates_of(findings, "warning")
        if failed and not (WAIVABLE_GATES.issuperset(failed) and self.is_released(triple)):
            reasons = tuple(finding.reason for finding in findings if finding.severity == "quarantine")
            ledger.rejections += [Rejection(raw=line.raw, gates=failed, reasons=reasons) for line in triple.lines]
            ledger.quarantined_tasks += 1
            return None
        routing = triple.routing
        history = self.history.of(routing.selected_agent_id, routing.task_type)
        point = point_of(triple, historical=history, warnings=warned, waived=failed)
        ledger.points += 1
        ledger.released += bool(failed)
        ledger.lines_in_points += len(triple.lines)
        ledger.rl_ready += point.rl_ready
        ledger.without_first_action += triple.execution.time_to_first_action is None
        ledger.warnings.update(warned)
        return row_of(point, day=self.day)

    def is_released(self, triple: Triple) -> bool:
        """Whether a reviewer approved every line of the task."""
        return all(quarantine_id(self.day, line.raw.payload) in self.approved for line in triple.lines)


def validate_day(pool: BenchmarkPool, day: date, *, now: datetime) -> ValidationReport:
    """Join and judge a day's lines, write its points, its quarantine and its account.

    The points replace the day's partition of the lake in one commit; quarantine and account follow in one transaction.
    A kill between the two leaves the day stale, and the next run makes both anew.

    Raises:
        PoolError: the lake cannot be used, or lines were lost on the way.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(f"validation:{day}") as connection:
        plan = plan_day(pool, day)
        judge_of_day = Judge(
            day=day,
            around=surroundings(pool, history := history_before(connection, day), now=now),
            history=history,
            approved=approved_lines(connection, day),
        )
        ledger = Ledger()
        digest = RowDigest()
        rows = digest.passing(judged_rows(pool, plan, judge_of_day, ledger))
        pool.replace(VALIDATED, day, rows, schema=arrow_schema(POINT_COLUMNS))
        report = report_of(day, ledger, digest=digest.hexdigest())
        replace_quarantine(connection, day, ledger.rejections)
        record(connection, report, revision=plan.revision, now=now)
    return report


def gates_of(findings: Iterable[Finding], severity: Severity) -> tuple[str, ...]:
    """The gates of this severity that did not hold, each once, in the table's order."""
    return tuple(dict.fromkeys(finding.gate for finding in findings if finding.severity == severity))


def surroundings(pool: BenchmarkPool, history: History, *, now: datetime) -> Surroundings:
    """What the gates judge against."""
    return Surroundings(
        now=now,
        task_types=frozenset(pool.settings.task_types),
        latency_ms_p99=history.latency_ms_p99,
        tokens_p99=history.tokens_p99,
    )


def judged_rows(pool: BenchmarkPool, plan: DayPlan, judge_of_day: Judge, ledger: Ledger) -> Iterator[Row]:
    """The rows of a day's points, some thousand tasks in memory at a time; the ledger fills on the way."""
    parts = min(MAX_PARTS, 1 + len(plan.owners) // TASKS_IN_MEMORY)
    with sorted_into_parts(read_day(pool, plan), parts=parts, folder=pool.settings.home) as sorted_lines:
        for lines in sorted_lines:
            for joined in joined_tasks(lines, ledger):
                row = judge_of_day.row(joined, ledger)
                if row is not None:
                    yield row
    ledger.check(judge_of_day.day)  # before the rows are committed


def joined_tasks(lines: Iterable[RawLine], ledger: Ledger) -> Iterator[Joined]:
    """The tasks of some lines, joined, in the order of their keys; each stray content is a task of its own."""
    tasks: dict[tuple[bytes, bytes, bytes], list[RawLine]] = defaultdict(list)
    for line in lines:
        ledger.lines += 1
        stray = line.payload if line.task_key is None else b""
        tasks[line.task_key or b"", line.owner_key or b"", stray].append(line)
    for key in sorted(tasks):
        yield join(tasks.pop(key))


def report_of(day: date, ledger: Ledger, *, digest: str) -> ValidationReport:
    """The account as a report."""
    unreadable = sum(1 for rejection in ledger.rejections if not DOOR_GATES.isdisjoint(rejection.gates))
    distinct = ledger.lines - ledger.duplicates
    return ValidationReport(
        day=day,
        lines=ledger.lines,
        lines_in_points=ledger.lines_in_points,
        quarantined=len(ledger.rejections),
        duplicates=ledger.duplicates,
        waiting=ledger.waiting,
        points=ledger.points,
        quarantined_tasks=ledger.quarantined_tasks,
        waiting_tasks=ledger.waiting_tasks,
        clean_fraction=fraction(ledger.points, ledger.points + ledger.quarantined_tasks),
        schema_valid_fraction=fraction(distinct - unreadable, distinct),
        rl_ready_fraction=fraction(ledger.rl_ready, ledger.points),
        duplicate_fraction=ledger.duplicates / ledger.lines if ledger.lines else 0.0,
        without_first_action=ledger.without_first_action,
        released=ledger.released,
        reasons=dict(Counter(gate for rejection in ledger.rejections for gate in rejection.gates)),
        warnings=dict(ledger.warnings),
        digest=digest,
    )


def fraction(part: int, whole: int) -> float:
    """The share of a part, 0–1; nothing of nothing is all of it."""
    return part / whole if whole else 1.0


def quarantine_id(day: date, line: bytes) -> str:
    """Digest of day and line: the same line of the same day keeps its row, its review and its note."""
    return blake2b(f"{day}\n".encode() + line, digest_size=16).hexdigest()


def approved_lines(connection: Connection[Any], day: date) -> frozenset[str]:
    """Ids of the day's quarantined lines that a reviewer approved."""
    rows = connection.execute("SELECT id FROM quarantine WHERE day = %s AND state = 'approved'", (day,))
    return frozenset(row[0] for row in rows)


def replace_quarantine(connection: Connection[Any], day: date, rejections: Iterable[Rejection]) -> None:
    """Make these the day's quarantined lines; reviews of lines are kept, also of those that were released."""
    connection.execute("CREATE TEMPORARY TABLE rejected (LIKE quarantine INCLUDING DEFAULTS) ON COMMIT DROP")
    with connection.cursor().copy(
        "COPY rejected (id, day, task_id, owner_key, gates, reasons, line) FROM STDIN"
    ) as copy:
        for rejection in rejections:
            raw = rejection.raw
            task_id = None if raw.task_id is None else column_text(raw.task_id)
            reasons = [column_text(reason) for reason in rejection.reasons]
            identity = quarantine_id(day, raw.payload)
            copy.write_row((identity, day, task_id, raw.owner_key, list(rejection.gates), reasons, raw.payload))
    connection.execute(
        "DELETE FROM quarantine WHERE day = %s AND state <> 'approved' AND id NOT IN (SELECT id FROM rejected)", (day,)
    )
    connection.execute(
        "INSERT INTO quarantine SELECT * FROM rejected"
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
