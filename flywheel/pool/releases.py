"""A batch whose purpose failed gives its points back: they may be chosen for its phase again.

The rows stay, so the ledger still says which points it had, and what it held out stays held out. The batch itself is
spent: nothing is trained on it or written from it again, or a point could serve a phase twice.
"""

from collections.abc import Collection
from datetime import datetime

from flywheel.errors import PoolError
from flywheel.pool.batches import Batch, stored_batch
from flywheel.pool.pool import BenchmarkPool


def release_batch(pool: BenchmarkPool, batch_id: str, *, because: str, now: datetime) -> Batch:
    """Lift the marks of a batch. One that was released stays as it was, its reason too.

    Raises:
        PoolError: there is no such batch, or no reason is given.
        DatabaseError: PostgreSQL cannot be used.
    """
    if not because.strip():
        raise PoolError(f"say why batch {batch_id} gives its points back")
    with pool.exclusive("batches") as connection:
        connection.execute(
            "UPDATE batches SET released_at = %s, released_because = %s WHERE id = %s AND released_at IS NULL",
            (now, because, batch_id),
        )
        connection.execute("UPDATE batch_points SET released = true WHERE batch_id = %s AND NOT released", (batch_id,))
        batch = stored_batch(connection, batch_id)
    if batch is None:
        raise PoolError(f"there is no batch {batch_id}; `flywheel pool batches` lists them")
    return batch


def released_among(pool: BenchmarkPool, batch_ids: Collection[str]) -> dict[str, bool]:
    """Whether each of these batches gave its points back; those that were never made are left out.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT id, released_at IS NOT NULL FROM batches WHERE id = ANY(%s)", (list(batch_ids),)
        )
        return dict(rows.fetchall())
