"""The points of a batch, copied into a lake table of their own.

A batch must outlive what it was made of: days run again, tiers age, logs of table versions expire. With its own copy,
what a model was trained on can be read for as long as the batch is kept.
"""

from collections.abc import Iterable
from hashlib import blake2b

from flywheel.errors import PoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, arrow_schema
from flywheel.pool.schemas import BATCH_COLUMNS, BATCHES, WARM
from flywheel.pool.selection import Choice, Offer

PHASE_ORDER = {"sft": 0, "grpo": 1}


def copy_points(pool: BenchmarkPool, batch_id: str, choice: Choice) -> str:
    """Copy the chosen points; a copy of the same id that no ledger knows is replaced. Returns the copy's digest.

    Raises:
        PoolError: a point is no longer where it was chosen from, or the lake cannot be written.
    """
    payloads = payloads_of(pool, [*choice.sft, *choice.grpo])
    rows: list[Row] = [
        {
            "batch_id": batch_id,
            "phase": phase,
            "position": position,
            "id": offer.id,
            "day": offer.day,
            "payload": payloads[offer.id],
        }
        for phase, offers in (("sft", choice.sft), ("grpo", choice.grpo))
        for position, offer in enumerate(offers)
    ]
    pool.replace(BATCHES, batch_id, rows, schema=arrow_schema(BATCH_COLUMNS), key="batch_id")
    return digest_of(rows)


def payloads_of(pool: BenchmarkPool, offers: Iterable[Offer]) -> dict[str, str]:
    """Wire JSON of each point, by id."""
    days = {offer.id: str(offer.day) for offer in offers}
    found: dict[str, str] = {
        row["id"]: row["payload"]
        for rows in pool.lake.read(WARM, columns=("id", "payload"), partitions=sorted(set(days.values())))
        for row in rows.to_pylist()
        if row["id"] in days
    }
    if len(found) < len(days):
        raise PoolError(
            f"{len(days) - len(found):,} of {len(days):,} chosen points left the warm tier while the batch was made; "
            f"nothing was made, run it again"
        )
    return found


def copied_points(pool: BenchmarkPool, batch_id: str, *, digest: str) -> list[Row]:
    """The batch's points as they were when it was made, by phase and position: ``phase``, ``position``, ``payload``.

    Raises:
        PoolError: they are not those the batch was made of.
    """
    batches = pool.lake.read(BATCHES, columns=("phase", "position", "payload"), partitions=[batch_id])
    rows: list[Row] = [row for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: (PHASE_ORDER[row["phase"]], row["position"]))
    if digest_of(rows) != digest:
        raise PoolError(
            f"the lake holds {len(rows):,} points of batch {batch_id} with digest {digest_of(rows)}, but it was made "
            f"with {digest}; restore the lake's table {BATCHES} from a backup, or make a new batch"
        )
    return rows


def digest_of(rows: Iterable[Row]) -> str:
    """Digest of the points by phase and order: equal digests, equal training data."""
    digest = blake2b(digest_size=16)
    for row in rows:
        content = row["payload"].encode()
        digest.update(f"{row['phase']}:{row['position']}:{len(content)}:".encode() + content)
    return digest.hexdigest()
