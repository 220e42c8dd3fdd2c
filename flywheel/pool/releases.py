"""A batch whose purpose failed gives its points back: they may be chosen for its phase again.

The rows stay, so the ledger still says which points it had, and what it held out stays held out. The batch itself is
spent: nothing is trained on it or written from it again, or a point could serve a phase twice.
"""

from collections.abc import Collection
from datetime import datetime

import msgspec

from flywheel.errors import PoolError
from flywheel.pool.batches import Batch, stored_batch
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import PHASES


def release_batch(pool: BenchmarkPool, batch_id: str, *, because: str, now: datetime, force: bool = False) -> Batch:
    """Lift the marks of a batch. One that was released stays as it was, its reason too.

    The ledger knows neither runs nor models, so a training batch is released only by ``force``: by the loop that gave
    it up, or by a person who looked at its runs.

    Raises:
        PoolError: there is no such batch, no reason is given, or a training batch is to be released without force.
        DatabaseError: PostgreSQL cannot be used.
    """
    if not because.strip():
        raise PoolError(f"say why batch {batch_id} gives its points back")
    with pool.exclusive("batches") as connection:
        batch = stored_batch(connection, batch_id)
        if batch is None:
            raise PoolError(f"there is no batch {batch_id}; `flywheel pool batches` lists them")
        if batch.released_at is not None:
            return batch
        if set(batch.points) == set(PHASES) and not force:
            raise PoolError(
                f"{batch_id} is a training batch: while it is trained, and once it gave a model, its {batch.size:,} "
                f"points are in use. The loop releases it by itself after three failed runs; where you looked at its "
                f"runs and no model is kept, say --force"
            )
        connection.execute(
            "UPDATE batches SET released_at = %s, released_because = %s WHERE id = %s",
            (now, because, batch_id),
        )
        connection.execute("UPDATE batch_points SET released = true WHERE batch_id = %s AND NOT released", (batch_id,))
        return msgspec.structs.replace(batch, released_at=now, released_because=because)


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


def without_grpo_among(pool: BenchmarkPool, batch_ids: Collection[str]) -> frozenset[str]:
    """Which of these batches have no points for GRPO: their training ends with SFT.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT id FROM batches WHERE id = ANY(%s) AND distribution->'points'->'grpo' = '0'", (list(batch_ids),)
        )
        return frozenset(batch_id for (batch_id,) in rows)


def made_among(pool: BenchmarkPool, batch_ids: Collection[str]) -> dict[str, datetime]:
    """When each of these batches was made; those that were never made are left out.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return dict(
            connection.execute("SELECT id, created_at FROM batches WHERE id = ANY(%s)", (list(batch_ids),)).fetchall()
        )
