"""Exports: immutable sets of anonymized points for one phase, split by task, each point marked once (SPEC section 6).

An export is a batch like the training loop's: chosen under the same lock, copied into the lake, entered into the same
ledger. It is made of one version of the warm tier, so the same criteria on the same version give the same digest. Where
rewards get noise, they give the same points; the noise is drawn once, when the export is made, and stays in its copy.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from psycopg import Connection

from flywheel.errors import AccessError, BatchExistsError, FlywheelError, PoolError, UnmadeBatchError
from flywheel.pool.access.principals import service_of
from flywheel.pool.anonymization.noise import Noise
from flywheel.pool.batch_copies import copy_points, copy_rows, digest_of
from flywheel.pool.batches import Batch, batch_of, check_id, check_kept, store, stored_batch
from flywheel.pool.contents import Compared, Contents
from flywheel.pool.export_choice import (
    ExportChoice,
    ExportCriteria,
    SplitName,
    choose_export,
    described,
    lacking,
    nothing_to_train_on,
    split_tasks,
)
from flywheel.pool.halts import halted_because, read_open_halts
from flywheel.pool.offers import read_offers
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import spend
from flywheel.pool.readiness import days_state, marked_points, unfit_days
from flywheel.pool.reward_noise import announced, noise_for, noised, objections, tenants_of
from flywheel.pool.rows import Row
from flywheel.pool.schemas import WARM
from flywheel.pool.selection import Offer
from flywheel.pool.splits import check_leakage, held_out_before, published_splits, trained_before
from flywheel.pool.tenant_salts import HASHING, hashing, present_hashes
from flywheel.pool.watermark import watermark_now
from flywheel.settings import Phase


class ExportPlan(Struct, frozen=True, kw_only=True):
    """An export that would be made now.

    ``lacking`` says in numbers what it still lacks. ``trained_before`` counts held-out tasks that an earlier batch
    trained on: a model of that batch is not judged fairly by them. Where rewards are to get noise, the batch has no
    digest and no quality yet: they are of what is drawn.
    """

    batch: Batch | None
    lacking: tuple[str, ...]
    trained_before: int


class MadeExport(Struct, frozen=True, kw_only=True):
    """An export with its points, where it was made just now; None where it was there before."""

    batch: Batch
    rows: list[Row] | None


class Planned(Struct, frozen=True, kw_only=True):
    """A plan with all that is needed to carry it out. Its batch has no digest yet."""

    phases: dict[Phase, Sequence[Offer]]
    splits: dict[str, SplitName]
    rows: list[Row]
    plan: ExportPlan
    noise: Noise | None


def preview_export(pool: BenchmarkPool, criteria: ExportCriteria, *, now: datetime) -> ExportPlan:
    """What an export made now would hold, and what it lacks. Nothing is marked or written.

    It is planned with the service's rights, also for a principal: the criteria are all that bounds it.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    own = service_of(pool)
    with own.transaction() as connection:
        criteria = with_present_hashes(connection, criteria)
        found = planned(own, connection, criteria, export_id="preview", now=now)
    batch = found.plan.batch
    if batch is None or found.noise is not None:
        return found.plan
    return replace(found.plan, batch=replace(batch, digest=digest_of(found.rows)))


def make_export(pool: BenchmarkPool, criteria: ExportCriteria, *, export_id: str, now: datetime) -> MadeExport:
    """Make an export: choose its points, copy them, mark them, enter it into the ledger; all of it or nothing.

    One that exists and was made with these criteria is returned as it is. For a principal it is made with the service's
    rights; whether its grant covers what was made is then PostgreSQL's to say.

    Raises:
        AccessError: the pool is a principal's, and PostgreSQL does not show it the export.
        QueryError: the id cannot be one.
        UnmadeBatchError: the pool is halted or lacks what the criteria ask for.
        BatchExistsError: the id is another batch's.
        SpentBatchError: the export gave its points back.
        PoolError: the lake cannot be read or written.
        DatabaseError: PostgreSQL cannot be used.
    """
    check_id(export_id)
    own = service_of(pool)
    with own.exclusive("batches") as connection:
        keep_hashes(own, connection)
        criteria = with_present_hashes(connection, criteria)
        stored = stored_batch(connection, export_id)
        if stored is not None:
            check_shown(pool, connection, export_id)
            return MadeExport(batch=made_before(stored, criteria), rows=None)
        found = planned(own, connection, criteria, export_id=export_id, now=now)
        batch, rows, noise = found.plan.batch, found.rows, found.noise
        if batch is None or found.plan.lacking:
            raise unmade(export_id, found.plan.lacking)
        if noise is not None:
            batch, rows = noised(batch, rows, noise)
        with ThreadPoolExecutor(1) as copying:  # the lake and PostgreSQL at once; the ledger holds when both are done
            copied = copying.submit(copy_points, own, export_id, rows)
            batch = replace(batch, digest=digest_of(rows))
            store(connection, batch, found.phases, found.splits)
            if noise is not None:
                tenants = tenants_of(found.phases[criteria.phase])
                spend(connection, pool.settings.privacy, noise, batch_id=export_id, tenants=tenants, now=now)
            copied.result()
        try:
            check_leakage(connection, pool.settings, batch.id)
            check_shown(pool, connection, export_id)
        except FlywheelError as refused:
            try:
                copy_points(own, export_id, [])
            except PoolError as error:
                refused.add_note(f"a copy of its points is still in the lake: {error}")
            raise
    return MadeExport(batch=batch, rows=rows)


def unmade(export_id: str, lacking: tuple[str, ...]) -> UnmadeBatchError:
    """What is said of an export that cannot be made."""
    error = UnmadeBatchError(f"export {export_id} cannot be made yet: {'; '.join(lacking)}")
    error.lacking = lacking
    return error


def check_shown(pool: BenchmarkPool, connection: Connection[Any], export_id: str) -> None:
    """Hold an export in the ledger against what PostgreSQL shows to whoever asked for it.

    Raises:
        AccessError: it is not shown to them, for example because their grant was revoked meanwhile.
    """
    with pool.as_caller(connection):
        shown = stored_batch(connection, export_id) is not None
    if not shown:
        raise AccessError(f"export {export_id} is not within what this grant shows; nothing was made or marked")


def keep_hashes(pool: BenchmarkPool, connection: Connection[Any]) -> None:
    """Let no rotation of the tenant salt begin or end until the transaction ends: marks and spending are by hashes.

    Raises:
        PoolError: policies name tenants, and the salts of this process are not those of the pool's points, so that it
            could not tell whose points are to get noise.
    """
    if pool.settings.anonymization.policies.tenants:
        hashing(pool, connection)
    else:
        pool.share(connection, HASHING)


def with_present_hashes(connection: Connection[Any], criteria: ExportCriteria) -> ExportCriteria:
    """The criteria with tenants by their present hashes, as offers have them."""
    if not criteria.only.tenants:
        return criteria
    present = present_hashes(connection)
    tenants = tuple(dict.fromkeys(present.get(tenant, tenant) for tenant in criteria.only.tenants))
    return replace(criteria, only=replace(criteria.only, tenants=tenants))


def made_before(batch: Batch, criteria: ExportCriteria) -> Batch:
    """The batch, where it is an export with these criteria that still has its points.

    Raises:
        SpentBatchError: it gave them back.
        BatchExistsError: it is another batch.
    """
    check_kept(batch)
    if {name: batch.criteria.get(name) for name in described(criteria)} != described(criteria):
        raise BatchExistsError(f"batch {batch.id} exists and was made with other criteria; choose another id")
    return batch


def planned(
    pool: BenchmarkPool, connection: Connection[Any], criteria: ExportCriteria, *, export_id: str, now: datetime
) -> Planned:
    """Choose, split and describe an export, in the caller's transaction."""
    watermark = watermark_now(connection)  # before the points are read: it says no more than they hold
    version = pool.lake.version(WARM)
    contents = contents_for(pool, criteria, version=version)
    choice = chosen_now(pool, connection, criteria, contents, now=now)
    contents.keep(choice.offers)
    phases: dict[Phase, Sequence[Offer]] = {criteria.phase: choice.offers}
    splits = splits_of(pool, connection, choice.offers, criteria)
    rows = copy_rows(export_id, phases, payloads=contents.payloads, splits=splits)
    state = days_state(connection, {offer.day for offer in choice.offers})
    problems = [
        *filter(None, [halted_because(read_open_halts(connection))]),
        *lacking(choice, criteria, configured=pool.settings.task_types),
        *nothing_to_train_on(splits),
        *unfit_days(state, wanted=pool.settings.batch.clean_fraction),
    ]
    held_out = [task for task, split in splits.items() if split == "held-out"]
    already = len(trained_before(connection, held_out))
    batch = None
    if rows:
        about = {
            **described(criteria),
            "profile": pool.settings.profile,
            "lake_version": version,
            "watermark": watermark,
            "trained_before": already,
        }
        batch = batch_of(
            export_id,
            phases,
            criteria=about,
            digest="",
            now=now,
            splits=splits,
            left_out={"near_duplicates": choice.near_duplicates, "unusable": choice.unusable},
        )
    noise = noise_for(pool.settings, criteria, choice.offers, rows)
    if batch is not None and noise is not None:
        batch = announced(batch, noise)
        problems += objections(connection, pool.settings, noise, choice.offers, now=now)
    plan = ExportPlan(batch=batch, lacking=tuple(problems), trained_before=already)
    return Planned(phases=phases, splits=splits, rows=rows, plan=plan, noise=noise)


def contents_for(pool: BenchmarkPool, criteria: ExportCriteria, *, version: int) -> Contents:
    """What points say, for a phase: SFT needs an answer, the others a prompt, and different answers to it."""
    sft = criteria.phase == "sft"
    compared: Compared = "conversation" if sft else "answer"
    return Contents(
        pool,
        version=version,
        usable=attrgetter("answered" if sft else "asked"),
        compared=compared if criteria.remove_near_duplicates else None,
    )


def chosen_now(
    pool: BenchmarkPool,
    connection: Connection[Any],
    criteria: ExportCriteria,
    contents: Contents,
    *,
    now: datetime,
) -> ExportChoice:
    """The points that an export made now would have."""
    if contents.version < 0:
        return ExportChoice(offers=())
    oldest = now - timedelta(days=criteria.max_age_days)
    offers = read_offers(
        pool,
        since=max(oldest, criteria.only.since or oldest),
        until=criteria.only.until,
        version=contents.version,
    )
    marked = marked_points(connection, [criteria.phase], since=oldest)[criteria.phase]
    return choose_export(offers, criteria, marked=marked, now=now, judge=contents.judge)


def splits_of(
    pool: BenchmarkPool, connection: Connection[Any], offers: Sequence[Offer], criteria: ExportCriteria
) -> dict[str, SplitName]:
    """The split of each task of these points.

    Raises:
        TaskSourceError: points name tasks of the configured benchmark, and its data cannot be read to see which of them
            it holds out.
    """
    tasks = sorted({offer.source_task for offer in offers})
    published = published_splits(pool.settings, tasks)
    return split_tasks(tasks, criteria, held_out=held_out_before(connection, tasks), published=published)
