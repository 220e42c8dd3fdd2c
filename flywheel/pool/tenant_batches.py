"""Tenants in training batches: copies of their points, their marks, their hashes, and what trainers were given."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from flywheel.pool.batch_copies import copied_rows, digest_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, arrow_schema
from flywheel.pool.schemas import BATCH_COLUMNS, BATCHES
from flywheel.pool.tenant_points import copied_from, erase_rows
from flywheel.pool.tenants import Tenant
from flywheel.records import decode_point

HASH = re.compile(rb"[0-9a-f]{64}")
REHASHING = "rehashing"
"""The key in a batch's criteria that marks it until its copies and its digest are those of the present salt."""


def erase_from_batch(pool: BenchmarkPool, tenant: Tenant, batch_id: str, *, ids: frozenset[str], now: datetime) -> None:
    """Remove a tenant's points from a batch, which keeps its id and says how many it lost and what its digest was.

    Quality and time range stay those of the whole batch. Folders into which it was exported for training are emptied:
    training exports it anew.

    Raises:
        PoolError: the lake cannot be read or written.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive("batches") as connection:
        erase_rows(pool, BATCHES, batch_id, BATCH_COLUMNS, copied_from(tenant, ids), key="batch_id")
        rows = copied_rows(pool, batch_id)
        removed = connection.execute(
            "DELETE FROM batch_points WHERE batch_id = %s AND point_id <> ALL(%s)",
            (batch_id, [row["id"] for row in rows]),
        ).rowcount
        remove_exports(pool, batch_id)
        correct(connection, batch_id, rows, removed=removed, now=now)


def correct(connection: Connection[Any], batch_id: str, rows: list[Row], *, removed: int, now: datetime) -> None:
    """Let a batch's row describe the points that are left."""
    stored = connection.execute(
        "SELECT digest, criteria, distribution FROM batches WHERE id = %s FOR UPDATE", (batch_id,)
    ).fetchone()
    digest = digest_of(rows)
    if stored is None or stored[0] == digest:
        return
    former, criteria, distribution = stored
    points = [decode_point(row["payload"]) for row in rows]
    phases = Counter(row["phase"] for row in rows)
    erased = {"at": now.isoformat(), "points": removed, "formerDigest": former}
    left = {
        "points": {phase: phases[phase] for phase in distribution["points"]},
        "task_types": dict(Counter(point.task.type for point in points)),
        "agents": dict(Counter(point.routing.selected_agent_id for point in points)),
    }
    connection.execute(
        "UPDATE batches SET digest = %s, criteria = %s, distribution = %s WHERE id = %s",
        (
            digest,
            Jsonb({**criteria, "erased": [*criteria.get("erased", ()), erased]}),
            Jsonb({**distribution, **left}),
            batch_id,
        ),
    )


def rehash_batch(pool: BenchmarkPool, batch_id: str, present: Mapping[str, str], *, now: datetime) -> None:
    """Let a batch's copies carry the tenants' present hashes, given by the former ones; it says what its digest was.

    What was exported of it keeps the former ones.

    Raises:
        PoolError: the lake cannot be read or written.
        DatabaseError: PostgreSQL cannot be used.
    """

    def rehashed(text: bytes) -> bytes:
        return HASH.sub(lambda found: present.get(found[0].decode(), found[0].decode()).encode(), text)

    with pool.exclusive("batches") as connection:
        rows = copied_rows(pool, batch_id)
        changed = [{**row, "batch_id": batch_id, "payload": rehashed(bytes(row["payload"]))} for row in rows]
        if any(new["payload"] != old["payload"] for new, old in zip(changed, rows, strict=True)):
            pool.replace(BATCHES, batch_id, changed, schema=arrow_schema(BATCH_COLUMNS), key="batch_id")
        stored = connection.execute(
            "SELECT digest, criteria FROM batches WHERE id = %s FOR UPDATE", (batch_id,)
        ).fetchone()
        if stored is None:
            return
        digest = digest_of(changed)
        criteria = json.loads(rehashed(json.dumps(stored[1]).encode()))
        criteria.pop(REHASHING, None)
        if digest != stored[0]:
            entry = {"at": now.isoformat(), "formerDigest": stored[0]}
            criteria["rehashed"] = [*criteria.get("rehashed", ()), entry]
        connection.execute(
            "UPDATE batches SET digest = %s, criteria = %s WHERE id = %s", (digest, Jsonb(criteria), batch_id)
        )


def remove_exports(pool: BenchmarkPool, batch_id: str) -> None:
    """Remove the batch's points from the folders in which its models were trained."""
    for folder in (pool.settings.home / "training" / batch_id).glob("*/batch"):
        shutil.rmtree(folder)
