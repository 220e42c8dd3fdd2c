"""The points of a batch, copied into a lake table of their own.

A batch must outlive what it was made of: days run again, tiers age, logs of table versions expire. With its own copy,
what a model was trained on can be read for as long as the batch is kept.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import get_args

from flywheel.errors import PoolError
from flywheel.pool.digests import texts_of
from flywheel.pool.files import ROWS_A_FILE, file_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, arrow_schema
from flywheel.pool.schemas import BATCH_COLUMNS, BATCHES, WARM
from flywheel.pool.selection import Offer
from flywheel.pool.workers import ahead, threaded
from flywheel.settings import Phase

WRITE_BYTES = 1 << 17
"""So much is handed to a file at once: calls for a line each cost twice the processor time, calls for a megabyte five
times, as Linux clears large pages for them.
"""
DIGESTED_AT_ONCE = 256
"""So many points: after each update a thread waits for its turn, behind those that make the copy's files."""
PHASE_ORDER = {phase: order for order, phase in enumerate(get_args(Phase))}


def copy_rows(
    batch_id: str,
    phases: Mapping[Phase, Sequence[Offer]],
    *,
    payloads: Mapping[str, memoryview],
    splits: Mapping[str, str] | None = None,
) -> list[Row]:
    """Rows of ``BATCH_COLUMNS`` in order.

    Args:
        batch_id: the partition.
        phases: the points of each phase, in order.
        payloads: wire JSON by point id, UTF-8.
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
    schema, key = arrow_schema(BATCH_COLUMNS), "batch_id"
    parts = (rows[start : start + ROWS_A_FILE] for start in range(0, len(rows), ROWS_A_FILE))
    files = threaded(partial(file_of, schema=schema, key=key), parts, threads=pool.processes)
    pool.replace_files(BATCHES, batch_id, files, schema=schema, key=key)


def read_payloads(pool: BenchmarkPool, offers: Collection[Offer], *, version: int) -> Iterator[tuple[str, memoryview]]:
    """Id and wire JSON of each point, from a version of the warm tier: UTF-8 where Arrow read it, of these points only.

    Raises:
        PoolError: the lake cannot be read, or a point is no longer where it was chosen from.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = {offer.id for offer in offers}
    chosen = pc.field("id").isin(pa.array(missing, pa.string()))
    days = sorted({str(offer.day) for offer in offers})
    found = pool.lake.read(WARM, columns=("id", "payload"), partitions=days, where=chosen, version=version)
    for rows in ahead(found):
        ids = rows.column("id").to_pylist()
        missing.difference_update(ids)
        yield from zip(ids, texts_of(rows.column("payload")), strict=True)
    if missing:
        raise PoolError(
            f"{len(missing):,} of {len(offers):,} chosen points left the warm tier while the batch was made; "
            f"nothing was made, run it again"
        )


def copied_points(pool: BenchmarkPool, batch_id: str, *, digest: str) -> list[Row]:
    """The batch's points as they were when it was made, as ``copied_rows``.

    Raises:
        PoolError: they are not those the batch was made of.
    """
    rows = copied_rows(pool, batch_id)
    if digest_of(rows) != digest:
        raise PoolError(
            f"the lake holds {len(rows):,} points of batch {batch_id} with digest {digest_of(rows)}, but it was made "
            f"with {digest}; restore the lake's table {BATCHES} from a backup, or make a new batch"
        )
    return rows


def copied_rows(pool: BenchmarkPool, batch_id: str) -> list[Row]:
    """The rows of a batch's copy by phase and position: ``BATCH_COLUMNS`` but for the batch, payloads as UTF-8.

    Raises:
        PoolError: the lake cannot be read.
    """
    columns = [name for name in BATCH_COLUMNS if name != "batch_id"]
    rows: list[Row] = []
    for batch in pool.lake.read(BATCHES, columns=columns, partitions=[batch_id]):
        places = batch.drop_columns(["payload"]).to_pylist()
        for row, payload in zip(places, texts_of(batch.column("payload")), strict=True):
            rows.append({**row, "split": row.get("split") or "train", "payload": payload})
    return sorted(rows, key=lambda row: (PHASE_ORDER[row["phase"]], row["position"]))


def digest_of(rows: Iterable[Row]) -> str:
    """Digest of the points by phase, split and order: equal digests, equal training data. Payloads are UTF-8."""
    digest = blake2b(digest_size=16)
    left = iter(rows)
    while some := list(islice(left, DIGESTED_AT_ONCE)):
        digest.update(b"".join(piece for row in some for piece in (place_of(row), row["payload"])))
    return digest.hexdigest()


def place_of(row: Row) -> bytes:
    """Where a point is in its batch, and how long it is."""
    part = row["phase"] if row["split"] == "train" else f"{row['phase']}/{row['split']}"
    return f"{part}:{row['position']}:{len(row['payload'])}:".encode()
