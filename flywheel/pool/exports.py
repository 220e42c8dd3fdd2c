"""Exports: immutable sets of anonymized points for one phase, split by task, each point marked once (SPEC section 6).

An export is a batch like the training loop's: chosen under the same lock, copied into the lake, entered into the same
ledger. It is made of one version of the warm tier, so the same criteria on the same version give the same digest.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.batch_copies import copy_points, copy_rows, digest_of, payloads_of
from flywheel.pool.batches import (
    Batch,
    batch_of,
    check_id,
    check_kept,
    find_batch,
    held_out_before,
    store,
    stored_batch,
)
from flywheel.pool.conversations import Conversation, conversation_of
from flywheel.pool.export_choice import (
    ExportChoice,
    ExportCriteria,
    Judgement,
    SplitName,
    choose_export,
    described,
    lacking,
    split_tasks,
)
from flywheel.pool.near_duplicates import Signatures, near_duplicates, signatures_of
from flywheel.pool.offers import read_offers
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row
from flywheel.pool.schemas import WARM
from flywheel.pool.selection import Offer
from flywheel.pool.tiers import unchecked_days
from flywheel.settings import Phase
from flywheel.tasks.catalog import load_source
from flywheel.tasks.source import Split

POINTS_AT_ONCE = 3_000
DAYS = """
SELECT coalesce(sum(lines_in_points), 0), coalesce(sum(lines_in_points + quarantined), 0),
       coalesce(sum(privacy_violations), 0), count(privacy_violations)
FROM days WHERE day = ANY(%s)
"""
LEAKED = """
WITH own AS (SELECT DISTINCT source_task, split FROM batch_points WHERE batch_id = %(batch)s)
SELECT source_task FROM own GROUP BY source_task HAVING count(*) > 1
UNION
SELECT own.source_task FROM own JOIN batch_points AS earlier USING (source_task)
JOIN batches ON batches.id = earlier.batch_id
WHERE own.split <> 'held-out' AND earlier.split = 'held-out' AND earlier.batch_id <> %(batch)s
  AND batches.created_at <= %(made_at)s
ORDER BY 1
"""


class ExportPlan(Struct, frozen=True, kw_only=True):
    """An export that would be made now.

    ``lacking`` says in numbers what it still lacks. ``trained_before`` counts held-out tasks that an earlier batch
    trained on: a model of that batch is not judged fairly by them.
    """

    batch: Batch | None
    lacking: tuple[str, ...]
    trained_before: int


class Planned(Struct, frozen=True, kw_only=True):
    """A plan with all that is needed to carry it out."""

    phases: dict[Phase, Sequence[Offer]]
    splits: dict[str, SplitName]
    rows: list[Row]
    plan: ExportPlan


class Contents:
    """What chosen points say, read once each from one version of the warm tier."""

    def __init__(self, pool: BenchmarkPool, criteria: ExportCriteria, *, version: int) -> None:
        self.pool = pool
        self.criteria = criteria
        self.version = version
        self.payloads: dict[str, str] = {}
        self._unusable: set[str] = set()
        self._signatures: dict[str, Signatures] = {}

    def judge(self, offers: Sequence[Offer]) -> Judgement:
        """Which of these points must not stay; of near-duplicates the first one stays.

        Raises:
            PoolError: the lake cannot be read.
        """
        self._read([offer for offer in offers if offer.id not in self.payloads])
        unusable = frozenset(offer.id for offer in offers if offer.id in self._unusable)
        if unusable or not self.criteria.remove_near_duplicates or not offers:
            return Judgement(unusable=unusable)
        table = np.stack([self._signatures[offer.id] for offer in offers])
        return Judgement(near_duplicates=frozenset(offers[row].id for row in near_duplicates(table)))

    def _read(self, offers: Sequence[Offer]) -> None:
        pending: list[tuple[list[str], Future[Signatures]]] = []
        with ThreadPoolExecutor(1) as sketching:  # numpy leaves Python free to read what comes next
            for some in by_days(offers):
                payloads = payloads_of(self.pool, some, version=self.version)
                conversations = {point: conversation_of(payload) for point, payload in payloads.items()}
                self.payloads |= payloads
                self._unusable |= {point for point, said in conversations.items() if not self._usable(said)}
                if self.criteria.remove_near_duplicates:
                    texts = [said.text for said in conversations.values()]
                    pending.append((list(conversations), sketching.submit(signatures_of, texts)))
        for points, sketched in pending:
            self._signatures.update(zip(points, sketched.result(), strict=True))

    def _usable(self, conversation: Conversation) -> bool:
        return conversation.answered if self.criteria.phase == "sft" else conversation.asked


def by_days(offers: Sequence[Offer]) -> Iterator[list[Offer]]:
    """The points of some days each, at least ``POINTS_AT_ONCE`` but for the last."""
    some: list[Offer] = []
    for _, of_day in groupby(sorted(offers, key=attrgetter("day")), key=attrgetter("day")):
        some += of_day
        if len(some) >= POINTS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def preview_export(pool: BenchmarkPool, criteria: ExportCriteria, *, now: datetime) -> ExportPlan:
    """What an export made now would hold, and what it lacks. Nothing is marked or written.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return planned(pool, connection, criteria, export_id="preview", now=now).plan


def export_points(pool: BenchmarkPool, criteria: ExportCriteria, *, export_id: str, now: datetime) -> Batch:
    """Make an export: choose its points, copy them, mark them, enter it into the ledger; all of it or nothing.

    One that exists and was made with these criteria is returned as it is.

    Raises:
        PoolError: the pool lacks what the criteria ask for, or the id is taken by another batch or cannot be one.
        DatabaseError: PostgreSQL cannot be used.
    """
    check_id(export_id)
    with pool.exclusive("batches") as connection:
        stored = stored_batch(connection, export_id)
        if stored is not None:
            return made_before(stored, criteria)
        found = planned(pool, connection, criteria, export_id=export_id, now=now)
        batch = found.plan.batch
        if batch is None or found.plan.lacking:
            raise PoolError(f"export {export_id} cannot be made yet: {'; '.join(found.plan.lacking)}")
        with ThreadPoolExecutor(1) as copying:  # the lake and PostgreSQL at once; the ledger holds when both are done
            copied = copying.submit(copy_points, pool, export_id, found.rows)
            store(connection, batch, found.phases, found.splits)
            copied.result()
        return batch


def made_before(batch: Batch, criteria: ExportCriteria) -> Batch:
    """The batch, where it is an export with these criteria that still has its points.

    Raises:
        PoolError: it is not.
    """
    check_kept(batch)
    if {name: batch.criteria.get(name) for name in described(criteria)} != described(criteria):
        raise PoolError(f"batch {batch.id} exists and was made with other criteria; choose another id")
    return batch


def planned(
    pool: BenchmarkPool, connection: "Connection[Any]", criteria: ExportCriteria, *, export_id: str, now: datetime
) -> Planned:
    """Choose, split and describe an export, in the caller's transaction."""
    version = pool.lake.version(WARM)
    contents = Contents(pool, criteria, version=version)
    choice = chosen_now(pool, connection, criteria, contents, now=now)
    phases: dict[Phase, Sequence[Offer]] = {criteria.phase: choice.offers}
    splits = splits_of(pool, connection, choice.offers, criteria)
    rows = copy_rows(export_id, phases, payloads=contents.payloads, splits=splits)
    problems = [
        *lacking(choice.offers, criteria, configured=pool.settings.task_types),
        *unfit_days(pool, connection, choice.offers),
    ]
    batch = None
    if rows:
        about = {**described(criteria), "profile": pool.settings.profile, "lake_version": version}
        batch = batch_of(
            export_id,
            phases,
            criteria=about,
            digest=digest_of(rows),
            now=now,
            splits=splits,
            left_out={"near_duplicates": choice.near_duplicates, "unusable": choice.unusable},
        )
    held_out = [task for task, split in splits.items() if split == "held-out"]
    plan = ExportPlan(batch=batch, lacking=tuple(problems), trained_before=len(trained_before(connection, held_out)))
    return Planned(phases=phases, splits=splits, rows=rows, plan=plan)


def chosen_now(
    pool: BenchmarkPool,
    connection: "Connection[Any]",
    criteria: ExportCriteria,
    contents: Contents,
    *,
    now: datetime,
) -> ExportChoice:
    """The points that an export made now would have."""
    if contents.version < 0:
        return ExportChoice(offers=())
    oldest = now - timedelta(days=criteria.max_age_days)
    marks = connection.execute(
        "SELECT point_id FROM batch_points WHERE phase = %s AND NOT released AND day >= %s",
        (criteria.phase, oldest.date() - timedelta(days=1)),
    )
    offers = read_offers(
        pool,
        since=max(oldest, criteria.only.since or oldest),
        until=criteria.only.until,
        version=contents.version,
    )
    marked = {point_id for (point_id,) in marks}
    return choose_export(offers, criteria, marked=marked, now=now, judge=contents.judge)


def splits_of(
    pool: BenchmarkPool, connection: "Connection[Any]", offers: Sequence[Offer], criteria: ExportCriteria
) -> dict[str, SplitName]:
    """The split of each task of these points.

    Raises:
        TaskSourceError: points name tasks of the configured benchmark, and its data cannot be read to see which of them
            it holds out.
    """
    tasks = sorted({offer.source_task for offer in offers})
    source = load_source(pool.settings)
    published: dict[str, Split] = {}
    if any(task.startswith(f"{source.name}:") for task in tasks):
        published = {task.id: task.split for task in source.tasks()}
    return split_tasks(tasks, criteria, held_out=held_out_before(connection, tasks), published=published)


def unfit_days(pool: BenchmarkPool, connection: "Connection[Any]", offers: Sequence[Offer]) -> list[str]:
    """Why the days that these points are of may not be exported, a sentence with its numbers each."""
    days = sorted({offer.day for offer in offers})
    row = connection.execute(DAYS, (days,)).fetchone()
    assert row is not None
    clean, judged, violations, verified = (int(value) for value in row)
    wanted = pool.settings.batch.clean_fraction
    problems = []
    if judged and clean / judged < wanted:
        problems.append(f"{clean / judged:.1%} of the lines of its days are clean, {wanted:.0%} needed")
    if violations:
        problems.append(f"{violations:,} privacy violations are open on its days, none allowed")
    if verified < len(days):
        problems.append(f"the privacy check of {len(days) - verified:,} of its days has not run")
    unchecked = unchecked_days(connection).intersection(days)
    if unchecked:
        problems.append(f"the warm tier has other points of {len(unchecked):,} of its days than the check looked at")
    return problems


def trained_before(connection: "Connection[Any]", tasks: Sequence[str]) -> frozenset[str]:
    """Which of these tasks an earlier batch trained on."""
    rows = connection.execute(
        "SELECT DISTINCT source_task FROM batch_points WHERE split = 'train' AND source_task = ANY(%s)", (list(tasks),)
    )
    return frozenset(task for (task,) in rows)


def leaked_tasks(pool: BenchmarkPool, batch_id: str) -> tuple[str, ...]:
    """Tasks that a batch trains or validates on and that it or an earlier batch holds out, or has in two splits.

    There are none; the check asks the ledger, not this sentence. A batch that was released counts as earlier, too.

    Raises:
        PoolError: there is no such batch.
        DatabaseError: PostgreSQL cannot be used.
    """
    batch = find_batch(pool, batch_id)
    with pool.transaction() as connection:
        rows = connection.execute(LEAKED, {"batch": batch.id, "made_at": batch.created_at}).fetchall()
    return tuple(task for (task,) in rows)
