"""One training batch, as the ledger has it."""

from flywheel.errors import NotInPoolError
from flywheel.pool.batches import Batch, stored_batch
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import column_text


def get_batch(pool: BenchmarkPool, batch_id: str) -> Batch:
    """What a batch was made of and from.

    Raises:
        NotInPoolError: there is none of this id.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        found = stored_batch(connection, column_text(batch_id))
    if found is None:
        raise NotInPoolError(f"there is no batch {batch_id}; `flywheel pool batches` lists them")
    return found
