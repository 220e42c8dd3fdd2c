"""What in the pool carries a tenant's hash under another salt than the present one: seen, not remembered.

A hash tells nothing about its salt. So the names of all tenants are read from the raw lines, one segment for each
tenant that was not met yet, and hashed with the present salt: every other hash is of another one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.access.decisions import standing
from flywheel.pool.access.grants import list_grants_of
from flywheel.pool.anonymization.tenants import Salts, salt_id
from flywheel.pool.headers import decode_header
from flywheel.pool.indexing import SegmentFrames
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.schemas import ANONYMIZED, BATCHES, COLD, WARM

if TYPE_CHECKING:
    import pyarrow as pa

DAILY_TABLES = (ANONYMIZED, WARM, COLD)
TENANTS = """
SELECT DISTINCT ON (tenant_key) tenant_key, segments.name FROM tasks JOIN segments ON segments.id = tasks.segments[1]
WHERE tenant_key <> '' ORDER BY tenant_key, segments.id DESC
"""


class Usage(Struct, frozen=True, kw_only=True):
    """What carries hashes of other salts.

    Attributes:
        rows: by where they are: tables of the lake, and the hot tier.
        days: on which those rows are; they are made anew by running the day again.
        batches: with copies of such points.
        grants: by their numbers, in force or waiting for approval.
        tokens: by their ids, good and issued under another salt. Each comes under the present one when it is used.
        erasures: that are under way for a tenant by such a hash.
    """

    rows: dict[str, int]
    days: tuple[date, ...]
    batches: tuple[str, ...]
    grants: tuple[int, ...]
    tokens: tuple[str, ...]
    erasures: int

    @property
    def nothing(self) -> bool:
        """Whether the other salts can be forgotten."""
        return not (self.days or self.batches or self.grants or self.tokens or self.erasures)

    def __str__(self) -> str:
        points, aggregates = self.rows.get(ANONYMIZED, 0), self.rows.get(COLD, 0)
        counts = {
            f"{points:,} points and {aggregates:,} aggregates of {len(self.days):,} days": self.days,
            f"{len(self.batches):,} batches": self.batches,
            f"{len(self.grants):,} grants": self.grants,
            f"{len(self.tokens):,} tokens": self.tokens,
            f"{self.erasures:,} unfinished erasures": self.erasures,
        }
        return ", ".join(words for words, there in counts.items() if there) or "nothing"


class TenantOf(Struct, rename="camel"):
    """The one part of a point's JSON that is asked for here."""

    tenant_id: str


decode_tenant = msgspec.json.Decoder(TenantOf).decode


def tenant_names(pool: BenchmarkPool) -> frozenset[str]:
    """The names of all tenants that the raw lines of the ledger name.

    Raises:
        PoolError: a segment is missing.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        where = dict(connection.execute(TENANTS).fetchall())
    names: set[str] = set()
    met: set[bytes] = set()
    for key, segment in where.items():
        if key in met:
            continue
        path = pool.settings.segments_dir / segment
        if not path.exists():
            raise PoolError(f"segment {segment} is in the ledger but not in {path.parent}; restore it from a backup")
        for header in headers(frame.payload for frame in SegmentFrames(path)):
            if header.tenant_id is not None:
                names.add(header.tenant_id)
                met.add(header.tenant_key)
    return frozenset(names)


def headers(lines: Iterable[bytes]) -> Iterator[Any]:
    """The headers of the lines that have one."""
    for line in lines:
        try:
            yield decode_header(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


def usage_of(pool: BenchmarkPool, salts: Salts, *, names: frozenset[str], now: datetime) -> Usage:
    """What carries a hash that is none of these tenants' under the present salt.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        present = {salts.hashes(name)[0] for name in names}
        present |= {hashed for (hashed,) in connection.execute("SELECT present FROM tenant_hashes")}
        hot = connection.execute(
            "SELECT day, count(*) FROM hot_points WHERE tenant_id <> ALL(%s) GROUP BY day", (list(present),)
        ).fetchall()
        grants, tokens, erasures = of_access(connection, salts, present, now=now)
    rows: Counter[str] = Counter(hot_points=sum(count for _, count in hot))
    days = {day for day, _ in hot}
    for table in DAILY_TABLES:
        for day, count in others_by_day(pool, table, present).items():
            rows[table] += count
            days.add(day)
    batches = batches_with_others(pool, present)
    rows[BATCHES] = sum(batches.values())
    return Usage(
        rows=dict(rows),
        days=tuple(sorted(days)),
        batches=tuple(sorted(batches)),
        grants=grants,
        tokens=tokens,
        erasures=erasures,
    )


def others_by_day(pool: BenchmarkPool, table: str, present: set[str]) -> Counter[date]:
    """How many rows of each day have another tenant than these."""
    found: Counter[date] = Counter()
    for batch in pool.lake.read(table, columns=("day", "tenant_id")):
        found.update(without(batch, present).column("day").to_pylist())
    return found


def without(batch: "pa.RecordBatch", tenants: set[str]) -> "pa.RecordBatch":
    """The rows of other tenants."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return batch.filter(pc.invert(pc.is_in(batch.column("tenant_id"), value_set=pa.array(tenants, pa.string()))))


def batches_with_others(pool: BenchmarkPool, present: set[str]) -> Counter[str]:
    """How many copies in each batch are of another tenant than these."""
    found: Counter[str] = Counter()
    for batch in pool.lake.read(BATCHES, columns=("batch_id", "payload")):
        for batch_id, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[batch_id] += decode_tenant(payload).tenant_id not in present
    return +found


def of_access(
    connection: Connection[Any], salts: Salts, present: set[str], *, now: datetime
) -> tuple[tuple[int, ...], tuple[str, ...], int]:
    """Grants and tokens that count, and erasures under way, by hashes of other salts."""
    counting = [
        grant
        for grant in list_grants_of(connection, None)
        if standing(grant, now=now) in ("in force", "waiting for approval")
    ]
    tokens = connection.execute(
        "SELECT id FROM access_tokens WHERE salt IS DISTINCT FROM %s AND revoked_at IS NULL AND expires_at > %s"
        " AND grant_id = ANY(%s) ORDER BY id",
        (salt_id(salts.present), now, [grant.id for grant in counting]),
    ).fetchall()
    row = connection.execute(
        "SELECT count(*) FROM erasures WHERE finished_at IS NULL AND tenant_hash <> ALL(%s)", (list(present),)
    ).fetchone()
    grants = tuple(grant.id for grant in counting if not present.issuperset(grant.tenants or ()))
    return grants, tuple(token for (token,) in tokens), row[0] if row else 0
