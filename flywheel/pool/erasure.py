"""Erasure of a tenant, or of tasks of it: from segments, quarantine, the lake and its old versions, tiers, and batches.

In the order in which data flows, so that nothing can flow back: first what waits, raw lines and the ledger, then the
points of each day, then batches and what they spent of privacy budgets, then all earlier versions of the lake's tables.
Each step takes the locks of those who write what it cleans, and can be repeated: a run that was killed is finished by
the next one. The row in ``erasures`` is there before the first step, with the tenant's keyed hash and never its name;
days and batches are entered into it before they can no longer be found. Of single tasks so are the points' ids, until
it is finished: nothing else tells their copies once the validated points are gone.
"""

from collections.abc import Callable, Collection
from datetime import date, datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from psycopg.types.json import Jsonb

from flywheel.collection.receiver.keys import forget_keys
from flywheel.errors import FlywheelError, PoolError
from flywheel.pool.anonymization.tenants import salts_of
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import count_spending, forget_spending
from flywheel.pool.schemas import LAKE_TABLES
from flywheel.pool.tenant_batches import erase_from_batch
from flywheel.pool.tenant_letters import count_letters, erase_letters
from flywheel.pool.tenant_lines import count_lines, erase_lines
from flywheel.pool.tenant_points import copies_of, count_points, erase_points
from flywheel.pool.tenant_runs import count_opinions, count_runs, forget_opinions, forget_runs
from flywheel.pool.tenant_verdicts import count_verdicts_of, deliver_verdicts, erase_verdicts_of
from flywheel.pool.tenants import Tenant


class TouchedModel(Struct, frozen=True, kw_only=True):
    """A version of a model that was trained on a batch. ``serves``: the arbiter routes tasks to it now."""

    name: str
    version: str
    stage: str
    batch: str
    aliases: tuple[str, ...]
    serves: bool


ModelsOf = Callable[[tuple[str, ...]], tuple[TouchedModel, ...]]
"""Names the models that were trained on these batches; raises ``FlywheelError`` where nobody can be asked."""


class ErasureReport(Struct, frozen=True, kw_only=True):
    """What of a tenant was removed, or would be.

    Attributes:
        requested_at: None where nothing was asked yet: a dry run.
        finished_at: None while it is under way.
        repeated: it was finished earlier, and nothing came since.
        removed: rows and lines by where they were.
        days: whose lines or points changed; they are run again, which makes their accounts anew.
        batches: that held its points.
        models: that were trained on one of those batches; None where the model registry could not be asked.
        registry: why it could not be asked.
        open_segments: that collectors still write. They are left alone: ``open_lines`` of it are in them.
        other_salt: points that were anonymized with a salt that is forgotten, or that this process does not have.
        tasks: how many tasks of it were asked for; None: all of it.
        ids: of the points of these tasks, while it is under way.
        by: who asked for it.
    """

    requested_at: datetime | None = None
    finished_at: datetime | None = None
    repeated: bool = False
    removed: dict[str, int]
    days: tuple[date, ...]
    batches: tuple[str, ...]
    models: tuple[TouchedModel, ...] | None = None
    registry: str = ""
    open_segments: int = 0
    open_lines: int = 0
    other_salt: int = 0
    tasks: int | None = None
    ids: tuple[str, ...] = ()
    by: str = ""


class Found(Struct, frozen=True, kw_only=True):
    """What there is of a tenant, and the ids of its points, which no report holds: they are digests of its name."""

    report: ErasureReport
    ids: frozenset[str]


def find_tenant(
    pool: BenchmarkPool, tenant_id: str, *, now: datetime, tasks: Collection[str] | None = None
) -> ErasureReport:
    """What ``erase_tenant`` would remove; changes nothing.

    Raises:
        PoolError: the lake, a segment or the tenant salt cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    return found_of(pool, tenant_of(pool, tenant_id, tasks), now=now).report


def erase_tenant(
    pool: BenchmarkPool,
    tenant_id: str,
    *,
    now: datetime,
    tasks: Collection[str] | None = None,
    models_of: ModelsOf | None = None,
    by: str = "the service",
) -> ErasureReport:
    """Remove a tenant from the whole pool, and name the batches and models that its points had touched.

    Logs that arrive later are new data. One erasure runs at a time.

    Args:
        pool: what is cleaned.
        tenant_id: the tenant's name, as logs have it.
        now: when.
        tasks: ids of the tasks that go, as logs have them; None: all of the tenant goes.
        models_of: asks the model registry; without it the report says that nobody did.
        by: who asks for it; the audit trail names them.

    Raises:
        PoolError: the lake, a segment or the tenant salt cannot be used. Run it again: it goes on.
        SigningKeyError: there are verdicts of it, and this process has not the key that the audit trail is signed with.
        DatabaseError: PostgreSQL cannot be used. Run it again: it goes on.
    """
    with pool.exclusive("erasure"):  # also keeps a rotation of the salt from beginning or ending meanwhile
        tenant = tenant_of(pool, tenant_id, tasks)
        index_segments(pool, now=now)
        deliver_verdicts(pool)
        found = found_of(pool, tenant, now=now)
        last = last_erasure(pool, tenant)
        if last and last[1].finished_at and not any(found.report.removed.values()):
            return repeated(pool, last, found.report, models_of=models_of)
        erasure_id, report = begin(pool, tenant, found, last, now=now)
        report = replace(report, by=by)
        ids = found.ids.union(report.ids)
        for step in (erase_raw, erase_days, erase_batches, erase_spending, forget_versions):
            report = step(pool, tenant, report, ids, now)
            save(pool, erasure_id, report)
        report = replace(named(report, models_of), finished_at=now, ids=())
        save(pool, erasure_id, report)
        return report


def tenant_of(pool: BenchmarkPool, tenant_id: str, tasks: Collection[str] | None = None) -> Tenant:
    """The tenant with its hashes, or these tasks of it.

    Raises:
        PoolError: no tenant or task is named so, or a salt cannot be used.
    """
    if not tenant_id.strip():
        raise PoolError("a tenant without a name cannot be erased; give it as its logs do")
    if tasks is not None and not all(task.strip() for task in tasks):
        raise PoolError("a task without an id cannot be erased; give it as its logs do")
    hashes = salts_of(pool.settings).hashes(tenant_id)
    return Tenant(id=tenant_id, hashes=hashes, tasks=None if tasks is None else frozenset(tasks))


def ledger_keys(pool: BenchmarkPool, tenant: Tenant) -> tuple[str, ...]:
    """Keyed hashes that the ledger knows an erasure by: of the tenant, or of its name and the tasks' ids together."""
    if tenant.tasks is None:
        return tenant.hashes
    return salts_of(pool.settings).hashes("\0".join([tenant.id, *sorted(tenant.tasks)]))


def found_of(pool: BenchmarkPool, tenant: Tenant, *, now: datetime) -> Found:
    """What there is of a tenant now."""
    letters = count_letters(pool, tenant)
    lines = count_lines(pool, tenant, now=now)
    points = count_points(pool, tenant)
    report = ErasureReport(
        removed={
            "waiting_spans": letters.waiting_spans,
            "dead_letters": letters.dead_letters,
            "segments": lines.segment_lines,
            "tasks": lines.tasks,
            "task_outcomes": lines.outcomes,
            "task_runs": count_runs(pool, tenant),
            "verdicts": count_verdicts_of(pool, tenant),
            "judge_opinions": count_opinions(pool, tenant),
            "quarantine": lines.quarantined,
            **points.rows,
            "privacy_spending": count_spending(pool, tenant.whole),
        },
        days=tuple(sorted(lines.days | points.days)),
        batches=tuple(sorted(points.batches)),
        open_segments=lines.open_segments + letters.open_segments,
        open_lines=lines.open_lines + letters.open_lines,
        other_salt=points.other_salt,
        tasks=None if tenant.tasks is None else len(tenant.tasks),
    )
    return Found(report=report, ids=points.ids)


Stored = tuple[int, ErasureReport]


def last_erasure(pool: BenchmarkPool, tenant: Tenant) -> Stored | None:
    """The latest erasure of this tenant, finished or not."""
    with pool.transaction() as connection:
        row = connection.execute(
            "SELECT id, report FROM erasures WHERE tenant_hash = ANY(%s) ORDER BY id DESC LIMIT 1",
            (list(ledger_keys(pool, tenant)),),
        ).fetchone()
    return (row[0], msgspec.convert(row[1], ErasureReport)) if row else None


def begin(pool: BenchmarkPool, tenant: Tenant, there: Found, last: Stored | None, *, now: datetime) -> Stored:
    """Enter an erasure before anything is removed, or go on with the one that was not finished."""
    found = replace(there.report, ids=() if tenant.tasks is None else tuple(sorted(there.ids)))
    if last and not last[1].finished_at:
        erasure_id, before = last
        report = replace(
            found,
            requested_at=before.requested_at,
            removed={where: max(count, before.removed.get(where, 0)) for where, count in found.removed.items()},
            days=tuple(sorted({*before.days, *found.days})),
            batches=tuple(sorted({*before.batches, *found.batches})),
            ids=tuple(sorted({*before.ids, *found.ids})),
        )
        save(pool, erasure_id, report)
        return erasure_id, report
    report = replace(found, requested_at=now)
    with pool.transaction() as connection:
        row = connection.execute(
            "INSERT INTO erasures (tenant_hash, requested_at, report) VALUES (%s, %s, %s) RETURNING id",
            (ledger_keys(pool, tenant)[0], now, as_json(report)),
        ).fetchone()
    assert row is not None
    return row[0], report


def save(pool: BenchmarkPool, erasure_id: int, report: ErasureReport) -> None:
    """Enter how far an erasure is."""
    with pool.transaction() as connection:
        connection.execute(
            "UPDATE erasures SET report = %s, finished_at = %s WHERE id = %s",
            (as_json(report), report.finished_at, erasure_id),
        )


def as_json(report: ErasureReport) -> Jsonb:
    """The report for PostgreSQL."""
    built: dict[str, Any] = msgspec.to_builtins(report)
    return Jsonb(built)


Step = Callable[[BenchmarkPool, Tenant, ErasureReport, frozenset[str], datetime], ErasureReport]


def erase_raw(
    pool: BenchmarkPool, tenant: Tenant, report: ErasureReport, ids: frozenset[str], now: datetime
) -> ErasureReport:
    """The first step: what the receiver lets in, what waits or was kept aside, then segments, ledger and quarantine."""
    del ids
    forget_runs(pool, tenant)
    erase_verdicts_of(pool, tenant, by=report.by)
    forget_opinions(pool, tenant)
    if tenant.tasks is None:
        forget_keys(pool, tenant.id)
    erase_letters(pool, tenant)
    index_segments(pool, now=now)  # logs that spans had become meanwhile, and dead letters that were brought back
    days = erase_lines(pool, tenant, now=now)
    return replace(report, days=tuple(sorted({*report.days, *days})))


def erase_days(
    pool: BenchmarkPool, tenant: Tenant, report: ErasureReport, ids: frozenset[str], now: datetime
) -> ErasureReport:
    """The second: points of each day, in tables, tiers and statistics."""
    del ids, now
    for day in report.days:
        erase_points(pool, tenant, day, ids=report.ids)
    return report


def erase_batches(
    pool: BenchmarkPool, tenant: Tenant, report: ErasureReport, ids: frozenset[str], now: datetime
) -> ErasureReport:
    """The third: copies of points in batches, also in those that were made while the points were removed."""
    batches = tuple(sorted({*report.batches, *copies_of(pool, tenant, ids)}))
    for batch_id in batches:
        erase_from_batch(pool, tenant, batch_id, ids=ids, now=now)
    return replace(report, batches=batches)


def erase_spending(
    pool: BenchmarkPool, tenant: Tenant, report: ErasureReport, ids: frozenset[str], now: datetime
) -> ErasureReport:
    """The fourth: what exports spent of its privacy budget, also one that was under way until now."""
    del ids, now
    with pool.exclusive("batches") as connection:
        forget_spending(connection, tenant.whole)
    return report


def forget_versions(
    pool: BenchmarkPool, tenant: Tenant, report: ErasureReport, ids: frozenset[str], now: datetime
) -> ErasureReport:
    """The last: earlier versions of the lake's tables, which still hold what the newest ones no longer do."""
    del tenant, ids, now
    for table in LAKE_TABLES:
        pool.forget(table)
    return report


def named(report: ErasureReport, models_of: ModelsOf | None) -> ErasureReport:
    """The report with the models that its batches went into, or with why they are not known."""
    if not report.batches:
        return replace(report, models=())
    if models_of is None:
        return replace(report, registry="no model registry was given")
    try:
        return replace(report, models=models_of(report.batches), registry="")
    except FlywheelError as error:
        return replace(report, registry=str(error))


def repeated(pool: BenchmarkPool, last: Stored, found: ErasureReport, *, models_of: ModelsOf | None) -> ErasureReport:
    """The report of an erasure that was finished earlier; the model registry is asked again if it did not answer."""
    erasure_id, report = last
    if report.models is None:
        report = named(report, models_of)
        save(pool, erasure_id, report)
    return replace(report, repeated=True, open_segments=found.open_segments, open_lines=found.open_lines)
