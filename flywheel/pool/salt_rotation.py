"""Rotation of the tenant salt: a new one is made, everything comes under it, and the former one is forgotten.

Both are valid in between (``flywheel.pool.tenant_salts``). Beginning and going on are one call, which does what can be
done now and can be repeated: a call that was killed is finished by the next one. Days come under the present salt when
they are run again; batches, grants and ledgers are rewritten here, by the table of hashes.

The former salt is forgotten in the ledger first and its file removed second: the other way round a kill in between
would leave hashes that nobody can find.
"""

from collections.abc import Collection
from datetime import datetime

from msgspec import Struct
from psycopg.types.json import Jsonb

from flywheel.errors import PoolError
from flywheel.pool.access.audit import record
from flywheel.pool.anonymization.tenants import (
    FORMER_FILE,
    PRESENT_FILE,
    Salts,
    former_salt_of,
    new_salt,
    salt_file,
    salt_id,
    salt_of,
    salts_of,
)
from flywheel.pool.intake import STALE_DAYS, mark_changed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.salt_usage import Usage, tenant_names, usage_of
from flywheel.pool.tenant_batches import REHASHING, rehash_batch
from flywheel.pool.tenant_salts import (
    COMPLETE_GRANTS,
    HASHING,
    check_present,
    enter_salts,
    known_salts,
    present_hashes,
    remember_tenants,
    without_forgotten,
)
from flywheel.secret_files import renew, sync_folder
from flywheel.settings import Settings

ROTATION = "salt-rotation"
LEAST_CHARACTERS = 32
ADVICE = f"a new secret of at least {LEAST_CHARACTERS} characters (`openssl rand -hex 32` makes one)"

# Columns that hold a tenant's hash, and are rewritten in place.
ERASURES = """
UPDATE erasures SET tenant_hash = present FROM tenant_hashes WHERE tenant_hash = former
"""
# Tasks that no benchmark names are told apart by tenant and task: what was held out stays held out.
BATCH_TASKS = """
UPDATE batch_points SET source_task = present || substr(source_task, 65) FROM tenant_hashes
WHERE left(source_task, 65) = former || '/'
"""
SPENDING = """
UPDATE privacy_spending SET tenant_hash = present FROM tenant_hashes WHERE tenant_hash = former
"""
GRANTS = """
UPDATE access_grants SET tenants = (
    SELECT array_agg(coalesce(present, hash) ORDER BY place)
    FROM unnest(tenants) WITH ORDINALITY AS named (hash, place) LEFT JOIN tenant_hashes ON former = hash
)
WHERE EXISTS (SELECT FROM tenant_hashes WHERE former = ANY (tenants))
"""


class SaltStatus(Struct, frozen=True, kw_only=True):
    """Where a rotation is. Salts are told by their ids, which say nothing about them.

    Attributes:
        present: that new hashes are made with.
        present_from: the setting or file that it is in.
        former: that is rotated away; None where none is.
        began_at: when the present one was first used here; None where it was not yet.
        carrying: what carries hashes of another salt than the present one.
    """

    present: str
    present_from: str
    former: str | None
    began_at: datetime | None
    carrying: Usage


def salt_status(pool: BenchmarkPool, *, now: datetime) -> SaltStatus:
    """Where the rotation is; changes nothing.

    Raises:
        PoolError: the salt, the lake or a segment cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    salts = salts_of(pool.settings)
    present = salt_id(salts.present)
    with pool.transaction() as connection:
        known = {salt.id: salt for salt in known_salts(connection)}
    former = without_forgotten(salts, known.values()).former
    configured = bool(pool.settings.tenant_salt.get_secret_value())
    return SaltStatus(
        present=present,
        present_from="the setting tenant_salt" if configured else str(salt_file(pool.settings)),
        former=None if former is None else salt_id(former),
        began_at=known[present].began_at if present in known else None,
        carrying=usage_of(pool, salts, names=tenant_names(pool), now=now),
    )


def rotate_salt(pool: BenchmarkPool, *, now: datetime, by: str, names: Collection[str] = ()) -> SaltStatus:
    """Begin a rotation, or go on with the one that is under way; two calls make one new salt.

    Args:
        pool: whose salt it is.
        now: the present.
        by: who asks, for the audit.
        names: of tenants that no raw line names any more, or not yet, and that grants or batches are for.

    Raises:
        PoolError: the settings give the salt and do not give the former one; the message says which variables to set.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(ROTATION):
        bring_under(pool, begin(pool, now=now, by=by), names=frozenset(names), now=now)
        return salt_status(pool, now=now)


def begin(pool: BenchmarkPool, *, now: datetime, by: str) -> Salts:
    """See that there are two salts, and that the ledger knows them: the new one is the present one from here on."""
    with pool.exclusive("erasure") as connection:
        pool.take(connection, HASHING)  # whoever hashes now, with the salt that is about to be former, ends first
        known = known_salts(connection)
        remove_forgotten(pool.settings, {salt.id for salt in known if salt.forgotten_at is not None})
        if pool.settings.tenant_salt.get_secret_value():
            check_configured(pool.settings)
        else:
            begin_files(pool.settings)
        salts = salts_of(pool.settings)
        if salt_id(salts.present) not in {salt.id for salt in known}:
            record(pool, "salt.rotate", principal=by, asked={"present": salt_id(salts.present)})
        enter_salts(connection, salts, now=now)
        return salts


def check_configured(settings: Settings) -> None:
    """Hold the salts that the settings give against what a rotation needs.

    Raises:
        PoolError: one of them is missing or too short, or both are the same; the message says what to set.
    """
    variables = (
        f"set FLYWHEEL_TENANT_SALT_PREVIOUS to what FLYWHEEL_TENANT_SALT is now and FLYWHEEL_TENANT_SALT to {ADVICE}, "
        f"for all services; start them again, then run this again"
    )
    former = former_salt_of(settings)
    if former is None:
        raise PoolError(
            f"the settings give the tenant salt, and nothing here can write them. Nothing changed: {variables}"
        )
    if former == salt_of(settings):
        raise PoolError(f"FLYWHEEL_TENANT_SALT and FLYWHEEL_TENANT_SALT_PREVIOUS are the same; {variables}")
    length = len(settings.tenant_salt.get_secret_value())
    if length < LEAST_CHARACTERS:
        raise PoolError(f"FLYWHEEL_TENANT_SALT has {length} characters, which can be guessed; set it to {ADVICE}")


def begin_files(settings: Settings) -> None:
    """Make a new salt, unless a rotation is under way, and keep the present one as the former."""
    if settings.tenant_salt_previous.get_secret_value():
        salt_of(settings)  # the former one is a setting; the present one is a file from now on
        return
    salt_of(settings)
    renew(salt_file(settings), new_salt, former=salt_file(settings, FORMER_FILE))


def remove_forgotten(settings: Settings, forgotten: Collection[str]) -> bool:
    """Remove the file of a salt that the ledger has forgotten. Whether there was one."""
    former = former_salt_of(settings)
    if former is None or settings.tenant_salt_previous.get_secret_value() or salt_id(former) not in forgotten:
        return False
    names = (FORMER_FILE, PRESENT_FILE) if settings.tenant_salt.get_secret_value() else (FORMER_FILE,)
    for path in (salt_file(settings, name) for name in names):
        if path.exists():
            path.unlink()
            sync_folder(path.parent)
    return True


def bring_under(pool: BenchmarkPool, salts: Salts, *, names: frozenset[str], now: datetime) -> None:
    """Let everything come under the present salt: ledgers, batches and grants now, days by running them again."""
    names |= tenant_names(pool)
    with pool.transaction() as connection:
        remember_tenants(connection, names, salts)
        for statement in (ERASURES, SPENDING, BATCH_TASKS, GRANTS, COMPLETE_GRANTS):
            connection.execute(statement)
        present = present_hashes(connection)
    usage = usage_of(pool, salts, names=names, now=now)
    for batch_id in batches_to_rehash(pool, usage.batches):
        rehash_batch(pool, batch_id, present, now=now)
    with pool.transaction() as connection:
        due = {day for day, _ in connection.execute(STALE_DAYS)}
        mark_changed(connection, set(usage.days) - due, now=now)


def batches_to_rehash(pool: BenchmarkPool, found: Collection[str]) -> list[str]:
    """These batches, and those that a killed rotation had begun with: their copies may be done and their row not.

    They are marked before the first one is touched.
    """
    with pool.transaction() as connection:
        connection.execute(
            "UPDATE batches SET criteria = criteria || %s WHERE id = ANY(%s)", (Jsonb({REHASHING: True}), list(found))
        )
        rows = connection.execute("SELECT id FROM batches WHERE criteria ? %s ORDER BY id", (REHASHING,))
        return sorted({*found, *(batch_id for (batch_id,) in rows)})


def finish_rotation(
    pool: BenchmarkPool, *, now: datetime, by: str, force: bool = False, names: Collection[str] = ()
) -> Usage:
    """Forget the former salt, once nothing carries it any more. Returns what still does, which only ``force`` leaves.

    ``names`` are of tenants as in ``rotate_salt``. What is forgotten by force is not found by its tenant's name any
    more: see docs/privacy.md.

    Raises:
        PoolError: something carries it and ``force`` is not set, or no salt is rotated.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(ROTATION) as connection:
        known = known_salts(connection)
        removed = remove_forgotten(pool.settings, {salt.id for salt in known if salt.forgotten_at is not None})
        salts = without_forgotten(salts_of(pool.settings), known)
        check_present(known, salt_id(salts.present))
        lost = [salt.id for salt in known if salt.forgotten_at is None and salt.id != salt_id(salts.present)]
        if salts.former is not None:
            bring_under(pool, salts, names=frozenset(names), now=now)
        elif removed and not lost:
            return usage_of(pool, salts, names=tenant_names(pool), now=now)
        elif not (lost and force):
            raise PoolError(
                f"the former salt {', '.join(lost)} is not here; give it back, or forget it with --force"
                if lost
                else "no salt is rotated; `flywheel keys rotate-salt` begins"
            )
        return forget(pool, salts, now=now, by=by, force=force)


def forget(pool: BenchmarkPool, salts: Salts, *, now: datetime, by: str, force: bool) -> Usage:
    """Forget every salt but the present one, if nothing carries it; nobody hashes, erases or makes batches meanwhile.

    Raises:
        PoolError: something carries it and ``force`` is not set.
    """
    present = salt_id(salts.present)
    with pool.exclusive("erasure") as connection:
        for lock in ("batches", HASHING):
            pool.take(connection, lock)
        carrying = usage_of(pool, salts, names=tenant_names(pool), now=now)
        if not carrying.nothing and not force:
            raise PoolError(f"the former salt is still needed: {carrying} carry it. {how_to_go_on(carrying)}")
        enter_salts(connection, salts, now=now, lost_too=force)
        connection.execute("UPDATE access_grants SET aliases = NULL WHERE aliases IS NOT NULL")
        connection.execute("DELETE FROM tenant_hashes")
        connection.execute(
            "UPDATE tenant_salts SET forgotten_at = %s WHERE id <> %s AND forgotten_at IS NULL", (now, present)
        )
        record(pool, "salt.forget", principal=by, asked={"present": present, "by_force": force, "left": str(carrying)})
    former = set() if salts.former is None else {salt_id(salts.former)}
    remove_forgotten(pool.settings, former)
    return carrying


def how_to_go_on(carrying: Usage) -> str:
    """What brings under the present salt what is left."""
    sentences = {
        "Its days are due to run again: see that they do, and that the pool is not halted.": carrying.days,
        f"Name their tenants with --tenant to rotate-salt: {', '.join(carrying.batches)}.": carrying.batches,
        f"Name their tenants with --tenant to rotate-salt, or request them anew and revoke these: grants "
        f"{', '.join(map(str, carrying.grants))}.": carrying.grants,
        f"Tokens come under the present one when they are used; issue others for {', '.join(carrying.tokens)} and "
        f"revoke these, or wait until they end.": carrying.tokens,
        "Run the erasures again: they go on.": carrying.erasures,
    }
    return " ".join(sentence for sentence, there in sentences.items() if there)
