"""Two days of two tenants in every place the pool has, and where anything of the one is found."""

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
from psycopg import sql

from flywheel.arbiter.audit_trail.outbox import encode_sealed
from flywheel.arbiter.audit_trail.rotation import settled_key
from flywheel.arbiter.audit_trail.trail import append
from flywheel.arbiter.evaluation.judges.kept import KeptInDatabase
from flywheel.arbiter.evaluation.judges.opinions import Score
from flywheel.arbiter.outcomes import Outcome, record_new
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.running.claims import Claims
from flywheel.collection.segments import MARKER, segment_bytes, write_closed_segment
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.batches import export_batch, make_batch
from flywheel.pool.headers import key_of
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row
from flywheel.pool.schemas import AGGREGATE_COLUMNS, ANONYMIZED, COLD, POINT_COLUMNS, VALIDATED, WARM
from flywheel.settings import BatchSettings, PhaseThreshold
from tests.arbiter.audit_trail.trails import sealed
from tests.pool.logs import NOON, Log, evaluation, execution, routing, task_logs, write_segment
from tests.pool.test_retention import DAY, run_day

ERASED, OTHER = "acme-erased", "umbrella"
SECRET = "zanzibar-quince"  # only the erased tenant's logs hold it
NEXT_DAY = DAY + timedelta(days=1)
LATER = NOON + timedelta(days=1, hours=2)
OPEN = PhaseThreshold(points=1, quality=0.5, max_age_days=90)
CRITERIA = BatchSettings(sft=OPEN, grpo=OPEN, clean_fraction=0, max_sft_points=12, max_grpo_points=12)


def tasks(tenant: str, *, at: datetime = NOON, agent: str = "agent-a", secret: str = "") -> list[Log]:
    """Six tasks that become points."""
    logs: list[Log] = []
    for number in range(6):
        name = f"{secret or tenant}-{at:%d}-{number}"
        task_type = "research" if number % 2 else "tool-calling"
        routed, executed, evaluated = task_logs(
            name, at=at + timedelta(minutes=number), tenant=tenant, agent=agent, taskType=task_type
        )
        logs += [
            {**routed, "description": f"{secret} {number}", "source": f"bench:{agent}{bool(secret)}-{number}-{at:%d}"},
            executed,
            evaluated,
        ]
    return logs


def lines_of_erased() -> list[Log | bytes]:
    """What else the erased tenant's arbiter wrote: nothing of it becomes a point."""
    unreadable = json.dumps({"tenantId": ERASED, "text": SECRET}).encode()
    return [
        *tasks(ERASED, secret=SECRET)[:1],  # a duplicate
        routing("waits", tenant=ERASED, description=SECRET),
        *task_logs("wrong", tenant=ERASED, toolCallCount=7, failureReason=SECRET),
        unreadable,
        unreadable.replace(b"acme", rb"\u0061cme"),
        b'{"tenantId": "acme-erased", ' + SECRET.encode(),
        {**execution("old", at=NOON - timedelta(days=3000)), "tenantId": ERASED, "failureReason": SECRET},
        routing("shared", tenant=ERASED, description=SECRET),
        {**execution("shared"), "failureReason": SECRET},  # ambiguous: the other tenant has the task as well
    ]


def lines_of_other() -> list[Log | bytes]:
    return [routing("shared", tenant=OTHER), evaluation("nobodys"), b"broken", routing("waits too", tenant=OTHER)]


def fill(pool: BenchmarkPool) -> None:
    """Two days of two tenants in every tier, made twice; a batch, and what its training wrote."""
    tomorrow = NOON + timedelta(days=1)
    mixed = [*tasks(OTHER), *tasks(ERASED, secret=SECRET), *lines_of_erased(), *lines_of_other()]
    damaged = write_segment(pool.settings, "a", mixed)
    modified = damaged.stat().st_mtime_ns
    with damaged.open("ab") as file:
        file.write(MARKER + b"\xff" * 8 + SECRET.encode())
    os.utime(damaged, ns=(modified, modified))
    write_segment(pool.settings, "b", tasks(OTHER, at=tomorrow, agent="agent-b"), written_at=tomorrow)
    write_segment(pool.settings, "c", tasks(ERASED, at=tomorrow, agent="agent-c", secret=SECRET), written_at=tomorrow)
    index_segments(pool, now=LATER)
    for _ in range(2):
        run_day(pool, now=LATER)
        run_day(pool, now=LATER, day=NEXT_DAY)
    make_batch(pool, "b1", now=LATER)
    export_batch(pool, "b1", pool.settings.home / "training" / "b1" / "sft" / "batch")
    AgentRegistry(pool.engine).register(AgentProfile(id="agent-a", kind="reference"))
    remembered = [
        Outcome(
            task_id=task_id,
            tenant_id=tenant_id,
            label="before",
            source_id="s",
            task_type="research",
            agent_id="agent-a",
            success=True,
            quality=1,
            latency_ms=1,
            evaluated_at=NOON,
        )
        for task_id, tenant_id in (
            *((task_id, "") for task_id in (f"{SECRET}-02-0", "shared", f"{OTHER}-02-0")),
            *(("run", tenant_id) for tenant_id in (ERASED, OTHER)),
        )
    ]
    with pool.engine.begin() as connection:
        record_new(connection, remembered)
    sign_verdicts(pool)
    claims = Claims(pool.engine, claim_s=30.0, kept=timedelta(hours=1))
    for tenant_id in (ERASED, OTHER):
        claims.take(tenant_id, "run", b"digest", CancelToken())
        keep_opinion(pool, tenant_id)
    claims.close()


def sign_verdicts(pool: BenchmarkPool) -> None:
    """Two verdicts of each tenant in the audit trail, the erased one's first, and one of each that still waits."""
    key = settled_key(pool.settings, pool.engine)
    signed = ((f"{SECRET}-02-0", ERASED), (f"{OTHER}-02-0", OTHER), ("run", ERASED), ("run", OTHER))
    with pool.engine.begin() as connection:
        append(connection, [sealed(task_id, tenant=tenant_id, key=key) for task_id, tenant_id in signed], key)
    waiting = [sealed(task_id, tenant=tenant_id, key=key) for task_id, tenant_id in (("w", ERASED), ("w", OTHER))]
    pool.settings.verdicts_dir.mkdir()
    write_closed_segment(pool.settings.verdicts_dir / "waits.segment", map(encode_sealed, waiting))


def keep_opinion(pool: BenchmarkPool, tenant_id: str) -> None:
    score = Score(value=0.9, confidence=0.9, reason=f"{SECRET if tenant_id == ERASED else OTHER} is well answered")
    KeptInDatabase(pool.engine, days=30).keep(tenant_id, {b"digest": score})


def needles(pool: BenchmarkPool) -> dict[str, bytes]:
    return {
        "name": ERASED.encode(),
        "hash": tenant_hash(ERASED, salt=salt_of(pool.settings)).encode(),
        "secret": SECRET.encode(),
    }


def content_of(path: Path) -> bytes:
    return repr(pq.read_table(path).to_pylist()).encode() if path.suffix == ".parquet" else bytes(segment_bytes(path))


def database_rows(pool: BenchmarkPool) -> Iterator[tuple[str, bytes]]:
    """Every row of every table as text; what is bytes there also as bytes."""
    with pool.transaction() as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall():
                yield table, b" ".join(bytes(v) if isinstance(v, bytes) else str(v).encode() for v in row)


def places(pool: BenchmarkPool) -> set[str]:
    """Where anything of the tenant is found: files below home, and tables, with what was found."""
    found = set()
    for what, needle in needles(pool).items():
        for path in pool.settings.home.rglob("*"):
            if path.is_file() and needle in content_of(path):
                found.add(f"{what} in {path.relative_to(pool.settings.home)}")
        for table, row in database_rows(pool):
            if needle in row and (table, what) != ("erasures", "hash"):
                found.add(f"{what} in table {table}")
    key = key_of(ERASED)
    return found | {f"key in table {table}" for table, row in database_rows(pool) if key in row}


def others(pool: BenchmarkPool) -> dict[str, list[Row]]:
    """Every row of the other tenant."""
    hashed = tenant_hash(OTHER, salt=salt_of(pool.settings))
    tables = {VALIDATED: POINT_COLUMNS, ANONYMIZED: POINT_COLUMNS, WARM: POINT_COLUMNS, COLD: AGGREGATE_COLUMNS}
    rows = {
        table: [
            row
            for batch in pool.lake.read(table, columns=tuple(columns))
            for row in batch.to_pylist()
            if row["tenant_id"] in (OTHER, hashed)
        ]
        for table, columns in tables.items()
    }
    with pool.transaction() as connection:
        rows["hot"] = [
            {"row": row} for row in connection.execute("SELECT * FROM hot_points WHERE tenant_id = %s", (hashed,))
        ]
    return {table: sorted(found, key=repr) for table, found in rows.items()}


def account(pool: BenchmarkPool) -> dict[str, int]:
    counts = pool_counts(pool)
    parts = ("lines_in_points", "quarantined", "duplicates", "waiting")
    assert counts["lines"] == sum(counts[part] for part in parts)
    return counts


def run_stale(pool: BenchmarkPool, *, now: datetime = LATER) -> None:
    for stale in stale_days(pool):
        run_day(pool, now=now, day=stale.day)
