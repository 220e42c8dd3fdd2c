"""The points of a batch, copied into a lake table of their own.

A batch must outlive what it was made of: days run again, tiers age, logs of table versions expire. With its own copy,
what a model was trained on can be read for as long as the batch is kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import get_args

from flywheel.errors import PoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, arrow_schema
from flywheel.pool.schemas import BATCH_COLUMNS, BATCHES, WARM
from flywheel.pool.selection import Offer
from flywheel.settings import Phase

PHASE_ORDER = {phase: order for order, phase in enumerate(get_args(Phase))}


def copy_rows(
    batch_id: str,
    phases: Mapping[Phase, Sequence[Offer]],
    *,
    payloads: Mapping[str, str],
    splits: Mapping[str, str] | None = None,
) -> list[Row]:
    """Rows of ``BATCH_COLUMNS`` in order.

    Args:
        batch_id: the partition.
        phases: the points of each phase, in order.
        payloads: wire JSON by point id.
        splits: by source task; by default all is for training.
    """
    return [
        {
            "batch_id": batch_id,
            "phase": phase,
            "split": "train" if splits is None else splits[offer.source_task],
            "position": position,
            "id": offer.id,
            "day": offer.day,
            "payload": payloads[offer.id],
        }
        for phase, offers in phases.items()
        for position, offer in enumerate(offers)
    ]


def copy_points(pool: BenchmarkPool, batch_id: str, rows: Sequence[Row]) -> None:
    """Write a batch's copy; one of the same id that no ledger knows is replaced.

    Raises:
        PoolError: the lake cannot be written.
    """
    pool.replace(BATCHES, batch_id, rows, schema=arrow_schema(BATCH_COLUMNS), key="batch_id")


def payloads_of(pool: BenchmarkPool, offers: Iterable[Offer], *, version: int | None = None) -> dict[str, str]:
    """Wire JSON of each point, by id, from the warm tier as it is or was in a version.

    Raises:
        PoolError: the lake cannot be read, or a point is no longer where it was chosen from.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    days = {offer.id: str(offer.day) for offer in offers}
    wanted = pa.array(list(days), pa.string())
    found: dict[str, str] = {}
    partitions = sorted(set(days.values()))
    for rows in pool.lake.read(WARM, columns=("id", "payload"), partitions=partitions, version=version):
        some = rows.filter(pc.is_in(rows.column("id"), value_set=wanted))
        found.update(zip(some.column("id").to_pylist(), some.column("payload").to_pylist(), strict=True))
    if len(found) < len(days):
        raise PoolError(
            f"{len(days) - len(found):,} of {len(days):,} chosen points left the warm tier while the batch was made; "
            f"nothing was made, run it again"
        )
    return found


def copied_points(pool: BenchmarkPool, batch_id: str, *, digest: str) -> list[Row]:
    """The batch's points as they were when it was made, by phase and position: ``BATCH_COLUMNS`` but for the batch.

    Raises:
        PoolError: they are not those the batch was made of.
    """
    rows = read_copies(pool, batch_id)
    if digest_of(rows) != digest:
        raise PoolError(
            f"the lake holds {len(rows):,} points of batch {batch_id} with digest {digest_of(rows)}, but it was made "
            f"with {digest}; restore the lake's table {BATCHES} from a backup, or make a new batch"
        )
    return rows


def read_copies(pool: BenchmarkPool, batch_id: str) -> list[Row]:
    """The batch's points as the lake has them, by phase and position: ``BATCH_COLUMNS`` but for the batch.

    Raises:
        PoolError: the lake cannot be read.
    """
    columns = [name for name in BATCH_COLUMNS if name != "batch_id"]
    batches = pool.lake.read(BATCHES, columns=columns, partitions=[batch_id])
    rows: list[Row] = [{"split": None, **row} for batch in batches for row in batch.to_pylist()]
    for row in rows:
        row["split"] = row["split"] or "train"
    rows.sort(key=lambda row: (PHASE_ORDER[row["phase"]], row["position"]))
    return rows


def digest_of(rows: Iterable[Row]) -> str:
    """Digest of the points by phase, split and order: equal digests, equal training data."""
    digest = blake2b(digest_size=16)
    for row in rows:
        content = row["payload"].encode()
        place = row["phase"] if row["split"] == "train" else f"{row['phase']}/{row['split']}"
        digest.update(f"{place}:{row['position']}:{len(content)}:".encode() + content)
    return digest.hexdigest()
