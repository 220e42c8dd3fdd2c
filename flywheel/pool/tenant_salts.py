"""What the ledger knows of the tenant salt: which salts there were, and each tenant's two hashes while one is rotated.

A tenant is one tenant whichever of its hashes a point carries. Whoever makes hashes holds ``hashing`` shared until what
it made is committed; the rotation holds it alone when it changes which salt is the present one. Before a point carries
a new hash, the table ``tenant_hashes`` says which former one it takes the place of, and grants for the tenant show
both.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.anonymization.tenants import Salts, salt_id, salts_of
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool

HASHING = "tenant-salt"
"""The lock that keeps the present salt the present one."""

OTHER_HASHES = """
SELECT present FROM tenant_hashes WHERE former = ANY(%(hashes)s)
UNION SELECT former FROM tenant_hashes WHERE present = ANY(%(hashes)s)
"""
COMPLETE_GRANTS = """
UPDATE access_grants SET aliases = theirs.aliases
FROM (
    SELECT id, array_agg(DISTINCT both_ways.other) AS aliases
    FROM access_grants CROSS JOIN unnest(tenants) AS named (hash)
    JOIN (
        SELECT former AS hash, present AS other FROM tenant_hashes
        UNION ALL SELECT present, former FROM tenant_hashes
    ) AS both_ways USING (hash)
    GROUP BY id
) AS theirs
WHERE theirs.id = access_grants.id AND access_grants.aliases IS DISTINCT FROM theirs.aliases
"""


class KnownSalt(Struct, frozen=True, kw_only=True):
    """A salt that points were anonymized with, by its id."""

    id: str
    began_at: datetime
    forgotten_at: datetime | None


def hashing(pool: BenchmarkPool, connection: Connection[Any]) -> Salts:
    """The salts, of which the present one stays it until the transaction ends.

    Raises:
        PoolError: the salts cannot be used, or are not those of the pool's points; see ``enter_salts``.
    """
    pool.share(connection, HASHING)
    salts = salts_of(pool.settings)
    with pool.transaction() as own:  # at once, so that nobody who enters the same one waits for the caller's end
        enter_salts(own, salts, now=pool.now())
        return without_forgotten(salts, known_salts(own))


def known_salts(connection: Connection[Any]) -> tuple[KnownSalt, ...]:
    """The salts that were ever seen here, oldest first."""
    rows = connection.execute("SELECT id, began_at, forgotten_at FROM tenant_salts ORDER BY number")
    return tuple(KnownSalt(id=known, began_at=began, forgotten_at=forgotten) for known, began, forgotten in rows)


def without_forgotten(salts: Salts, known: Iterable[KnownSalt]) -> Salts:
    """The salts without a former one that the pool has forgotten, and that the settings still give."""
    forgotten = {salt.id for salt in known if salt.forgotten_at is not None}
    gone = salts.former is not None and salt_id(salts.former) in forgotten
    return Salts(present=salts.present) if gone else salts


def enter_salts(connection: Connection[Any], salts: Salts, *, now: datetime, lost_too: bool = False) -> None:
    """Hold a process's salts against those of the pool, and enter the ones that the pool has not seen.

    ``lost_too`` lets pass that the process lacks one of the pool's.

    Without this a process with a salt of its own would make two tenants of each.

    Raises:
        PoolError: the present one was forgotten or is older than another, or one of the pool's is missing.
    """
    present = salt_id(salts.present)
    former = None if salts.former is None else salt_id(salts.former)
    if is_entered(known_salts(connection), present, former, lost_too=lost_too):
        return
    connection.execute("LOCK TABLE tenant_salts IN SHARE ROW EXCLUSIVE MODE")  # of two with own salts one is first
    if is_entered(known_salts(connection), present, former, lost_too=lost_too):
        return
    for one in (former, present):
        if one is not None:
            connection.execute(
                "INSERT INTO tenant_salts (id, began_at) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING", (one, now)
            )


def is_entered(known: Sequence[KnownSalt], present: str, former: str | None, *, lost_too: bool) -> bool:
    """Whether the ledger has the present salt, given by its id.

    Raises:
        PoolError: as ``enter_salts``.
    """
    in_use = [salt.id for salt in known if salt.forgotten_at is None]
    check_present(known, present)
    lost = [one for one in in_use if one not in (present, former)]
    if lost and not lost_too:
        raise PoolError(
            f"tenants of this pool are hashed with the salt {', '.join(lost)}, which this process does not have: its "
            f"own is {present}. Give it back, or to rotate it away set FLYWHEEL_TENANT_SALT_PREVIOUS to it; where it "
            f"is lost, see docs/privacy.md, The tenant salt"
        )
    return present in in_use


def check_present(known: Sequence[KnownSalt], present: str) -> None:
    """Make sure that a process does not hash with a salt that others have left; it is given by its id.

    Raises:
        PoolError: it does: it was started before the salt was rotated.
    """
    in_use = [salt.id for salt in known if salt.forgotten_at is None]
    forgotten = {salt.id: salt.forgotten_at for salt in known if salt.forgotten_at is not None}
    if present in forgotten:
        raise PoolError(
            f"this process has the tenant salt {present}, which was forgotten at {forgotten[present]:%Y-%m-%d %H:%M} "
            f"UTC; give it the present one and start it again"
        )
    if present in in_use[:-1]:
        raise PoolError(
            f"this process has the tenant salt {present}, which is rotated away for {in_use[-1]}; set "
            f"FLYWHEEL_TENANT_SALT to that one and FLYWHEEL_TENANT_SALT_PREVIOUS to this, and start it again"
        )


def remember_tenants(connection: Connection[Any], names: Iterable[str], salts: Salts) -> None:
    """Enter which former hash each tenant's present one takes the place of, and let grants for them show both.

    Nothing to do where no salt is rotated.
    """
    if salts.former is None:
        return
    pairs = [(former, present) for present, former in map(salts.hashes, sorted(set(names)))]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO tenant_hashes (former, present) VALUES (%s, %s)"
            " ON CONFLICT (former) DO UPDATE SET present = excluded.present"
            " WHERE tenant_hashes.present <> excluded.present",
            pairs,
        )
    connection.execute(COMPLETE_GRANTS)


def present_hashes(connection: Connection[Any]) -> Mapping[str, str]:
    """The present hash by the former one, of every tenant that is known to have two."""
    return dict(connection.execute("SELECT former, present FROM tenant_hashes").fetchall())


def of_same_tenants(pool: BenchmarkPool, connection: Connection[Any], where: PointFilter) -> PointFilter:
    """The filter with every hash of the tenants it names."""
    if not where.tenants:
        return where
    with pool.as_service(connection):
        rows = connection.execute(OTHER_HASHES, {"hashes": list(where.tenants)}).fetchall()
    return replace(where, tenants=(*where.tenants, *sorted({other for (other,) in rows} - set(where.tenants))))
