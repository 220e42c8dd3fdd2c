"""Judging a part of a day: lines in, rows of points and turned-away lines out, and an account of both. Pure.

Runs in processes of its own for a large day, so what goes in and out is small and can be pickled.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.errors import PoolError
from flywheel.pool.digests import Digest
from flywheel.pool.expiry import Waiting, expired, is_expired, waiting_row
from flywheel.pool.files import LakeFile, batches_of, lake_file
from flywheel.pool.gates import WAIVABLE_GATES, Finding, Severity, Surroundings, judge
from flywheel.pool.history import History
from flywheel.pool.joining import Joined, Line, Rejection, Triple, join, point_of
from flywheel.pool.lake import PARTITION
from flywheel.pool.parts import RawLine, owned_lines
from flywheel.pool.rows import Row, arrow_schema, column_text, row_of
from flywheel.pool.schemas import POINT_COLUMNS

DOOR_GATES = frozenset({"complete", "types", "bounds"})
REJECTED = Finding(
    gate="rejected",
    severity="quarantine",
    reason="a reviewer rejected it while one of its logs was missing; the log came, `flywheel quarantine release` lets "
    "the task pass",
)


class Ledger(Struct):
    """The running account of a day, in lines and in tasks. ``reasons`` counts turned-away lines by gate.

    ``quarantined_tasks`` had all their logs, or one that cannot be read; ``expired_tasks`` lack one. ``missing`` counts
    tasks that wait by what they lack.
    """

    lines: int = 0
    lines_in_points: int = 0
    quarantined: int = 0
    unreadable: int = 0
    duplicates: int = 0
    waiting: int = 0
    points: int = 0
    quarantined_tasks: int = 0
    waiting_tasks: int = 0
    expired_tasks: int = 0
    rl_ready: int = 0
    without_first_action: int = 0
    released: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    warnings: Counter[str] = msgspec.field(default_factory=Counter)
    missing: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, other: "Ledger") -> None:
        """Account for what another one did."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def check(self, day: date) -> None:
        """Hold the account against the law.

        Raises:
            PoolError: lines were lost or invented.
        """
        accounted = self.lines_in_points + self.quarantined + self.duplicates + self.waiting
        if accounted != self.lines:
            raise PoolError(
                f"day {day}: {self.lines:,} lines came in, {accounted:,} are accounted for "
                f"({self.lines_in_points:,} in points, {self.quarantined:,} quarantined, {self.duplicates:,} "
                f"duplicates, {self.waiting:,} waiting). Nothing was written; this is a fault of the pool, "
                f"please report it."
            )


class Rejected(Struct, frozen=True, array_like=True):
    """A row of the quarantine, before anybody reviewed it."""

    id: str
    day: date
    task_id: str | None
    owner_key: bytes | None
    gates: tuple[str, ...]
    reasons: tuple[str, ...]
    line: bytes


class Judge(Struct, frozen=True, kw_only=True):
    """What a day's tasks are judged with. ``approved`` are quarantined lines that a reviewer released.

    ``rejected`` are those that one rejected while their task lacked a log; ``longest_wait`` is for such a log.
    """

    day: date
    around: Surroundings
    history: History
    longest_wait: timedelta
    approved: frozenset[str]
    rejected: frozenset[str]


class PartJob(Struct, frozen=True, kw_only=True):
    """A part of a day: where its lines lie and their owners, both encoded, and what they are judged with.

    ``segments_dir`` holds the segments that the chunks name.
    """

    judge: Judge
    segments_dir: Path
    chunks: bytes
    owners: bytes


class JudgedPart(Struct, frozen=True, kw_only=True):
    """What became of a part. ``file`` holds its points, columns of ``POINT_COLUMNS``; None where it has none."""

    file: LakeFile | None
    digest: Digest
    rejected: tuple[Rejected, ...]
    waiting: tuple[Waiting, ...]
    ledger: Ledger


def judge_part(job: PartJob) -> JudgedPart:
    """Join a part's lines and judge its tasks. Rows are sorted by task type, then time: queries ask for either."""
    ledger = Ledger()
    rejections: list[Rejection] = []
    waiting: list[Waiting] = []
    rows = [
        row
        for joined in joined_tasks(owned_lines(job.chunks, job.owners, folder=job.segments_dir), ledger)
        if (row := row_of_task(joined, job.judge, ledger, rejections, waiting)) is not None
    ]
    rows.sort(key=itemgetter("task_type", "timestamp", "id"))
    account_for(rejections, ledger)
    digest = Digest()
    batches = digest.passing(batches_of(rows, schema=arrow_schema(POINT_COLUMNS)))
    return JudgedPart(
        file=lake_file(batches, key=PARTITION) if rows else None,
        digest=digest,
        rejected=tuple(rejected(rejection, day=job.judge.day) for rejection in rejections),
        waiting=tuple(waiting),
        ledger=ledger,
    )


def joined_tasks(lines: Iterable[RawLine], ledger: Ledger) -> Iterator[Joined]:
    """The tasks of some lines, joined, in the order of their keys; each stray content is a task of its own."""
    tasks: dict[tuple[bytes, bytes, bytes], list[RawLine]] = defaultdict(list)
    for line in lines:
        ledger.lines += 1
        stray = line.payload if line.task_key is None else b""
        tasks[line.task_key or b"", line.owner_key or b"", stray].append(line)
    for key in sorted(tasks):
        yield join(tasks.pop(key))


def row_of_task(
    joined: Joined, judged_with: Judge, ledger: Ledger, rejections: list[Rejection], waiting: list[Waiting]
) -> Row | None:
    """Account for one task; its row if it is a point."""
    ledger.duplicates += joined.duplicates
    rejections += joined.rejections
    if joined.triple is not None:
        return row_of_triple(joined.triple, judged_with, ledger, rejections)
    if joined.since is None:
        ledger.quarantined_tasks += 1
    elif may_wait(joined, judged_with):
        row = waiting_row(joined)
        waiting.append(row)
        ledger.waiting += row.lines
        ledger.waiting_tasks += 1
        ledger.missing[", ".join(row.missing)] += 1
    else:
        rejections += expired(joined, longest_wait=judged_with.longest_wait)
        ledger.expired_tasks += 1
    return None


def may_wait(joined: Joined, judged_with: Judge) -> bool:
    """Whether an incomplete task has time left, and nobody rejected it already."""
    assert joined.since is not None
    in_time = not is_expired(joined.since, longest_wait=judged_with.longest_wait, now=judged_with.around.now)
    return in_time and not is_rejected(joined.waiting, judged_with)


def row_of_triple(triple: Triple, judged_with: Judge, ledger: Ledger, rejections: list[Rejection]) -> Row | None:
    """The row of a joined task that passes its gates, or that a reviewer let through."""
    findings = judge(triple, judged_with.around)
    if is_rejected(triple.lines, judged_with):
        findings = (REJECTED, *findings)
    failed = gates_of(findings, "quarantine")
    warned = gates_of(findings, "warning")
    if failed and not (WAIVABLE_GATES.issuperset(failed) and is_released(triple, judged_with)):
        reasons = tuple(finding.reason for finding in findings if finding.severity == "quarantine")
        rejections += [Rejection(raw=line.raw, gates=failed, reasons=reasons) for line in triple.lines]
        ledger.quarantined_tasks += 1
        return None
    routing = triple.routing
    history = judged_with.history.of(routing.selected_agent_id, routing.task_type)
    point = point_of(triple, historical=history, warnings=warned, waived=failed)
    ledger.points += 1
    ledger.released += bool(failed)
    ledger.lines_in_points += len(triple.lines)
    ledger.rl_ready += point.rl_ready
    ledger.without_first_action += triple.execution.time_to_first_action is None
    ledger.warnings.update(warned)
    return row_of(point, day=judged_with.day)


def gates_of(findings: Iterable[Finding], severity: Severity) -> tuple[str, ...]:
    """The gates of this severity that did not hold, each once, in the table's order."""
    return tuple(dict.fromkeys(finding.gate for finding in findings if finding.severity == severity))


def is_released(triple: Triple, judged_with: Judge) -> bool:
    """Whether a reviewer approved every line of the task."""
    return all(quarantine_id(judged_with.day, line.raw.payload) in judged_with.approved for line in triple.lines)


def is_rejected(lines: Iterable[Line], judged_with: Judge) -> bool:
    """Whether a reviewer rejected a line of the task while it lacked a log."""
    if not judged_with.rejected:
        return False
    return any(quarantine_id(judged_with.day, line.raw.payload) in judged_with.rejected for line in lines)


def account_for(rejections: list[Rejection], ledger: Ledger) -> None:
    """Count what was turned away."""
    ledger.quarantined = len(rejections)
    ledger.unreadable = sum(1 for rejection in rejections if not DOOR_GATES.isdisjoint(rejection.gates))
    ledger.reasons.update(gate for rejection in rejections for gate in rejection.gates)


def rejected(rejection: Rejection, *, day: date) -> Rejected:
    """A line that was turned away, as a row of the quarantine."""
    raw = rejection.raw
    return Rejected(
        id=quarantine_id(day, raw.payload),
        day=day,
        task_id=None if raw.task_id is None else column_text(raw.task_id),
        owner_key=raw.owner_key,
        gates=rejection.gates,
        reasons=tuple(map(column_text, rejection.reasons)),
        line=raw.payload,
    )


def quarantine_id(day: date, line: bytes) -> str:
    """Digest of day and line: the same line of the same day keeps its row, its review and its note."""
    return blake2b(f"{day}\n".encode() + line, digest_size=16).hexdigest()
