"""Anonymization of a day: its validated points, without persons and secrets, in a table of their own."""

from collections import Counter
from collections.abc import Iterator
from datetime import date

import msgspec
from msgspec import Struct

from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.anonymization.violations import violations_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, RowDigest, arrow_schema, read_rows, row_of
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS, VALIDATED
from flywheel.records import DataPoint, decode_point, to_builtins

EXAMPLES = 20

# Never touched (SPEC section 4): what statistics and strata are kept by. Every other string is looked into.
KEPT = frozenset({"id", "timestamp", "tenantId"})
KEPT_WITHIN = {"task": ("type", "complexity"), "routing": ("selectedAgentId", "strategy")}


class AnonymizationReport(Struct, frozen=True, kw_only=True):
    """What was replaced. ``replaced`` counts by type; a value that occurs twice counts twice."""

    day: date
    points: int
    points_changed: int
    replaced: dict[str, int]
    digest: str


class Violations(Struct, frozen=True, kw_only=True):
    """What is left in a day. ``where`` names points, fields and types of the first ones, never values."""

    day: date
    count: int
    points: int
    by_type: dict[str, int]
    where: tuple[str, ...]


class Account(Struct):
    """The running account of a day."""

    changed: int = 0
    replaced: Counter[str] = msgspec.field(default_factory=Counter)


def anonymize_day(pool: BenchmarkPool, day: date) -> AnonymizationReport:
    """Read the day's validated points, replace what SPEC section 4 names, and write them as the anonymized ones.

    Raises:
        PoolError: the lake or the tenant salt cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    salt = salt_of(pool.settings)
    account = Account()
    digest = RowDigest()
    with pool.exclusive(f"anonymization:{day}") as connection:
        known = connection.execute("SELECT validated_revision FROM days WHERE day = %s", (day,)).fetchone()
        rows = digest.passing(anonymized_rows(pool, day, salt=salt, account=account))
        pool.replace(ANONYMIZED, day, rows, schema=arrow_schema(POINT_COLUMNS))
        if known:
            connection.execute(
                "UPDATE days SET anonymized_revision = %s, privacy_violations = NULL,"
                " points_removed_at = CASE WHEN points = %s THEN NULL ELSE points_removed_at END WHERE day = %s",
                (known[0], digest.rows, day),
            )
    return AnonymizationReport(
        day=day,
        points=digest.rows,
        points_changed=account.changed,
        replaced=dict(account.replaced),
        digest=digest.hexdigest(),
    )


def anonymized_rows(pool: BenchmarkPool, day: date, *, salt: bytes, account: Account) -> Iterator[Row]:
    """The day's rows without persons and secrets."""
    for row in read_rows(pool, VALIDATED, day, columns=("payload",)):
        anonymizer = Anonymizer()
        point = anonymized(decode_point(row["payload"]), anonymizer=anonymizer, salt=salt)
        account.replaced.update(anonymizer.replaced)
        account.changed += bool(anonymizer.replaced)
        yield row_of(point, day=day)


def anonymized(point: DataPoint, *, anonymizer: Anonymizer, salt: bytes) -> DataPoint:
    """The point with its tenant hashed and every string looked into. Its id stays: it is a digest.

    A data point has no field for a user id; a routing decision's is not carried into it.
    """
    tenant = tenant_hash(point.tenant_id, salt=salt)
    wire = to_builtins(point)
    clean = {name: value if name in KEPT else anonymizer.value(value) for name, value in wire.items()}
    for part, names in KEPT_WITHIN.items():
        clean[part] |= {name: wire[part][name] for name in names}
    for feedback in clean["feedback"]:
        if feedback.get("tenantId") is not None:
            feedback["tenantId"] = tenant
    return msgspec.convert({**clean, "tenantId": tenant}, DataPoint)


def find_violations(pool: BenchmarkPool, day: date) -> Violations:
    """Look for what is left in the day's anonymized points with other eyes, and enter the count into the ledger.

    Raises:
        PoolError: the lake cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    by_type: Counter[str] = Counter()
    points: set[str] = set()
    where: list[str] = []
    for row in read_rows(pool, ANONYMIZED, day, columns=("payload",)):
        for violation in violations_of(msgspec.json.decode(row["payload"])):
            by_type[violation.type] += 1
            points.add(violation.point_id)
            if len(where) < EXAMPLES:
                where.append(f"{violation.point_id} {violation.field}: {violation.type}")
    with pool.transaction() as connection:
        connection.execute("UPDATE days SET privacy_violations = %s WHERE day = %s", (by_type.total(), day))
    return Violations(day=day, count=by_type.total(), points=len(points), by_type=dict(by_type), where=tuple(where))
