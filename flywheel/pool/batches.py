"""Training batches: immutable sets of points, each phase of them marked, in a ledger (SPEC section 6)."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from msgspec import Struct
from psycopg import Connection
from psycopg.types.json import Jsonb

from flywheel.errors import NotInPoolError, PoolError, QueryError, SpentBatchError
from flywheel.pool.batch_copies import WRITE_BYTES, copied_points, copy_points, copy_rows, digest_of
from flywheel.pool.export_choice import SplitName, distribution
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import PHASES, chosen_now, contents_now, missing, readiness_of
from flywheel.pool.rows import column_text
from flywheel.pool.selection import Offer
from flywheel.pool.splits import check_leakage
from flywheel.pool.watermark import watermark_now
from flywheel.settings import Phase

BATCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Batch(Struct, frozen=True, kw_only=True):
    """A batch as the ledger has it. ``quality`` holds mean, least and greatest overall score per phase.

    The counts by complexity, outcome and split, and ``left_out``, which counts points by why their content kept them
    from an export, are empty in batches of earlier versions.
    """

    id: str
    digest: str
    created_at: datetime
    first_at: datetime
    last_at: datetime
    size: int
    points: dict[str, int]
    task_types: dict[str, int]
    agents: dict[str, int]
    quality: dict[str, Any]
    criteria: dict[str, Any]
    complexities: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    splits: dict[str, int] = {}
    left_out: dict[str, int] = {}
    released_at: datetime | None = None
    released_because: str | None = None


def make_batch(pool: BenchmarkPool, batch_id: str, *, now: datetime) -> Batch:
    """Make a batch: copy its points, mark them, enter it into the ledger. One that exists is returned as it is.

    Raises:
        PoolError: the id cannot be one, is an export's or that of a batch that gave its points back, or the pool lacks
            what the profile's thresholds ask for; the message says what.
    """
    check_id(batch_id)
    with pool.exclusive("batches") as connection:
        stored = stored_batch(connection, batch_id)
        if stored is not None:
            check_trainable(stored)
            return stored
        watermark = watermark_now(connection)  # before the points are read: it says no more than they hold
        contents = contents_now(pool)
        choice, unusable = chosen_now(pool, connection, contents, now=now)
        lacking = missing(readiness_of(pool, connection, choice), pool.settings.batch)
        if lacking:
            raise PoolError(f"batch {batch_id} cannot be made yet: {'; '.join(lacking)}")
        phases: dict[Phase, Sequence[Offer]] = {"sft": choice.sft, "grpo": choice.grpo}
        rows = copy_rows(batch_id, phases, payloads=contents.payloads)
        copy_points(pool, batch_id, rows)
        batch = batch_of(
            batch_id,
            phases,
            criteria=criteria_of(pool, version=contents.version, watermark=watermark),
            digest=digest_of(rows),
            now=now,
            left_out={"unusable": unusable},
        )
        store(connection, batch, phases)
        check_leakage(connection, pool.settings, batch_id)
        return batch


def check_id(batch_id: str) -> None:
    """Hold an id against the names that a partition can have.

    Raises:
        QueryError: it is none of them.
    """
    if not BATCH_ID.fullmatch(batch_id):
        raise QueryError(f"{batch_id!r} cannot name a batch; use up to 100 letters, digits, dots, dashes, underscores")


def check_trainable(batch: Batch) -> None:
    """Hold a batch against what the training loop may train on.

    Raises:
        PoolError: it is an export, or gave its points back: they may be in another batch by now.
    """
    if set(batch.points) != set(PHASES):
        raise PoolError(f"{batch.id} is an export for {', '.join(batch.points)}, not a training batch; use another id")
    check_kept(batch)


def check_kept(batch: Batch) -> None:
    """Refuse a batch that gave its points back.

    Raises:
        SpentBatchError: it did.
    """
    if batch.released_at is not None:
        raise SpentBatchError(
            f"batch {batch.id} gave its points back on {batch.released_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC "
            f"({batch.released_because}); they may be in another batch by now: make a new one with another id"
        )


def criteria_of(pool: BenchmarkPool, *, version: int, watermark: str | None) -> dict[str, Any]:
    """What decided the choice: the settings, the version of the warm tier they were applied to, and the watermark."""
    settings: dict[str, Any] = pool.settings.batch.model_dump(mode="json")
    return {**settings, "profile": pool.settings.profile, "lake_version": version, "watermark": watermark}


def batch_of(
    batch_id: str,
    phases: Mapping[Phase, Sequence[Offer]],
    *,
    criteria: dict[str, Any],
    digest: str,
    now: datetime,
    splits: Mapping[str, SplitName] | None = None,
    left_out: dict[str, int] | None = None,
) -> Batch:
    """The batch's description. ``splits`` are by source task; without them all is for training."""
    offers = [offer for some in phases.values() for offer in some]
    instants = [offer.timestamp for offer in offers]
    counts: dict[str, Any] = distribution(offers, splits)
    return Batch(
        id=batch_id,
        digest=digest,
        created_at=now,
        first_at=min(instants),
        last_at=max(instants),
        size=len(offers),
        points={phase: len(some) for phase, some in phases.items()},
        quality={phase: score_statistics(some) for phase, some in phases.items()},
        criteria=criteria,
        left_out=left_out or {},
        **counts,
    )


def score_statistics(offers: Sequence[Offer]) -> dict[str, float]:
    """Mean, least and greatest overall score; nothing of no offers."""
    scores = [offer.overall_score for offer in offers]
    if not scores:
        return {}
    return {"mean": fmean(scores), "min": min(scores), "max": max(scores)}


def store(
    connection: "Connection[Any]",
    batch: Batch,
    phases: Mapping[Phase, Sequence[Offer]],
    splits: Mapping[str, SplitName] | None = None,
) -> None:
    """Write a batch and mark its points, in the caller's transaction."""
    counted = ("points", "task_types", "agents", "complexities", "outcomes", "splits", "left_out")
    connection.execute(
        "INSERT INTO batches (id, digest, created_at, first_at, last_at, criteria, distribution, quality)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            batch.id,
            batch.digest,
            batch.created_at,
            batch.first_at,
            batch.last_at,
            Jsonb(batch.criteria),
            Jsonb({name: getattr(batch, name) for name in counted}),
            Jsonb(batch.quality),
        ),
    )
    columns = "batch_id, phase, position, point_id, source_task, day, split"
    with connection.cursor().copy(f"COPY batch_points ({columns}) FROM STDIN") as copy:
        for phase, offers in phases.items():
            for position, offer in enumerate(offers):
                split = "train" if splits is None else splits[offer.source_task]
                copy.write_row((batch.id, phase, position, offer.id, offer.source_task, offer.day, split))


def list_batches(pool: BenchmarkPool) -> tuple[Batch, ...]:
    """All batches, oldest first."""
    with pool.transaction() as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM batches ORDER BY created_at, id")]
        return tuple(batch for batch_id in ids if (batch := stored_batch(connection, batch_id)) is not None)


def get_batch(pool: BenchmarkPool, batch_id: str) -> Batch:
    """The batch of this id: what it was made of and from.

    Raises:
        NotInPoolError: there is none.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        batch = stored_batch(connection, column_text(batch_id))
    if batch is None:
        raise NotInPoolError(f"there is no batch {batch_id}; `flywheel pool batches` lists them")
    return batch


def stored_batch(connection: "Connection[Any]", batch_id: str) -> Batch | None:
    """The batch of this id, if it was made."""
    row = connection.execute(
        "SELECT digest, created_at, first_at, last_at, distribution, quality, criteria, released_at, released_because"
        " FROM batches WHERE id = %s",
        (batch_id,),
    ).fetchone()
    if row is None:
        return None
    digest, created_at, first_at, last_at, counts, quality, criteria, released_at, released_because = row
    return Batch(
        id=batch_id,
        digest=digest,
        created_at=created_at,
        first_at=first_at,
        last_at=last_at,
        size=sum(counts["points"].values()),
        quality=quality,
        criteria=criteria,
        released_at=released_at,
        released_because=released_because,
        **counts,
    )


class Member(Struct, frozen=True, kw_only=True):
    """A point of a batch."""

    phase: Phase
    position: int
    point_id: str
    source_task: str
    day: str
    split: SplitName


def batch_members(pool: BenchmarkPool, batch_id: str) -> tuple[Member, ...]:
    """Which points trained which phase of a batch, in order.

    Raises:
        PoolError: there is no such batch.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT phase, position, point_id, source_task, day::text, split FROM batch_points WHERE batch_id = %s"
            " ORDER BY phase DESC, position",
            (batch_id,),
        ).fetchall()
    if not rows:
        raise PoolError(f"there is no batch {batch_id}; `flywheel pool batches` lists them")
    return tuple(Member(**dict(zip(Member.__struct_fields__, row, strict=True))) for row in rows)


def batch_overlap(pool: BenchmarkPool, batch_id: str) -> tuple[str, ...]:
    """Source tasks that are in both phases of a batch. There are none; the check asks the ledger, not this sentence."""
    members = batch_members(pool, batch_id)
    tasks = {phase: {member.source_task for member in members if member.phase == phase} for phase in PHASES}
    return tuple(sorted(tasks["sft"] & tasks["grpo"]))


def export_batch(pool: BenchmarkPool, batch_id: str, folder: Path) -> Path:
    """Write a batch for the trainers: ``sft.jsonl``, ``grpo.jsonl`` (a point in wire JSON a line), ``manifest.json``.

    Raises:
        PoolError: there is no such training batch, it gave its points back, or they are not those it was made of.
    """
    batch = get_batch(pool, batch_id)
    check_trainable(batch)
    members = batch_members(pool, batch_id)
    rows, stamp = copied_points(pool, batch_id, digest=batch.digest), stamp_of(batch)
    folder.mkdir(parents=True, exist_ok=True)
    for phase in PHASES:
        with (folder / f"{phase}.jsonl").open("wb", buffering=WRITE_BYTES) as file:
            of_phase = (row["payload"][:-1] for row in rows if row["phase"] == phase)
            file.writelines(part for payload in of_phase for part in (payload, stamp, b"\n"))
    (folder / "manifest.json").write_text(manifest(batch, members), encoding="utf-8")
    return folder


def stamp_of(batch: Batch) -> bytes:
    """What ends a point's wire JSON when it leaves with a batch: ``exportedAt``, ``trainingBatchId`` (SPEC section 2).

    The pool's own copies do not say it: a point may be in a batch of each phase, and the same points have the same
    digest in whichever batch they are.
    """
    said = {"exportedAt": batch.created_at.astimezone(UTC), "trainingBatchId": batch.id}
    return b"," + msgspec.json.encode(said)[1:]


def manifest(batch: Batch, members: Sequence[Member]) -> str:
    """The batch's description with every point id, as JSON for people and for MLflow."""
    description = msgspec.to_builtins(batch)
    ids = {phase: [member.point_id for member in members if member.phase == phase] for phase in PHASES}
    return json.dumps({**description, "point_ids": ids}, indent=1, ensure_ascii=False)
