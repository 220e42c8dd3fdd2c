"""Erasure of what verdicts say, of a tenant or of an old day: contents go, digests stay, the chain verifies as before.

Each erasure is an entry of the trail itself, which says by whom how many contents went, and by a digest which: what is
gone by no erasure, or besides those of one, is tampering.
"""

from collections.abc import Callable, Collection
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Date, Engine, cast, func, select, update

from flywheel.arbiter.audit_trail.chain import ErasedContents
from flywheel.arbiter.audit_trail.contents import Erasure, Sealed, encode_content
from flywheel.arbiter.audit_trail.keys import SigningKey
from flywheel.arbiter.audit_trail.tables import audit_contents, audit_entries
from flywheel.arbiter.audit_trail.trail import append, locked
from flywheel.errors import AuditTrailError
from flywheel.pool.headers import key_of

ERASED_AT_ONCE = 10_000
beside = audit_contents.c


def count_verdicts(engine: Engine, tenant_id: str, *, tasks: Collection[str] | None = None) -> int:
    """How many verdicts there are of a tenant, or of these tasks of it."""
    return _count(engine, _of(tenant_id, tasks))


def verdicts_by_day(engine: Engine, *, before: date) -> dict[date, int]:
    """How many verdicts still say something, by the day (UTC) on which they came into the trail, of days before one."""
    day = cast(func.timezone("UTC", beside.at), Date).label("day")
    old = (beside.verdict_id.is_not(None), beside.at < _midnight(before))
    query = select(day, func.count().label("verdicts")).where(*old).group_by(day)
    with engine.connect() as connection:
        return {row.day: row.verdicts for row in connection.execute(query)}


def erase_verdicts(
    engine: Engine,
    tenant_id: str,
    *,
    tasks: Collection[str] | None = None,
    key_of_trail: Callable[[], SigningKey],
    by: str,
) -> int:
    """Remove what verdicts of a tenant, or of these tasks of it, say. Returns how many.

    Args:
        engine: of the database that has the trail.
        tenant_id: the tenant, as its logs name it.
        tasks: ids of those of its tasks that are meant; None: all of it.
        key_of_trail: gives the key that signs the entry; asked where there is something to erase.
        by: who is named in the entry.

    Raises:
        SigningKeyError: the trail is signed with another key.
        AuditTrailError: entries are gone whose contents are meant.
        DatabaseError: PostgreSQL cannot be used.
    """
    return _erase(engine, _of(tenant_id, tasks), key_of_trail, by=by)


def erase_verdicts_of_day(engine: Engine, day: date, *, key_of_trail: Callable[[], SigningKey], by: str) -> int:
    """Remove what the verdicts say that came into the trail on a day (UTC). Returns how many.

    Raises:
        SigningKeyError: the trail is signed with another key.
        AuditTrailError: entries are gone whose contents are meant.
        DatabaseError: PostgreSQL cannot be used.
    """
    within = (beside.at >= _midnight(day), beside.at < _midnight(day + timedelta(days=1)))
    return _erase(engine, [beside.verdict_id.is_not(None), *within], key_of_trail, by=by)


def _count(engine: Engine, of: list[ColumnElement[bool]]) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(audit_contents).where(*of)).scalar_one())


def _erase(engine: Engine, of: list[ColumnElement[bool]], key_of_trail: Callable[[], SigningKey], *, by: str) -> int:
    """Some thousand go in one transaction with the entry that says so: a run that was killed is gone on with."""
    erased = 0
    while _count(engine, of):
        with engine.begin() as connection:
            erased += _erase_some(connection, of, key_of_trail(), by=by)
    return erased


def _erase_some(connection: Connection, of: list[ColumnElement[bool]], key: SigningKey, *, by: str) -> int:
    locked(connection)
    joined = audit_contents.join(audit_entries, audit_entries.c.sequence == beside.sequence)
    query = select(beside.sequence, audit_entries.c.content_digest).select_from(joined).where(*of)
    rows = connection.execute(query.order_by(beside.sequence).limit(ERASED_AT_ONCE)).all()
    if not rows:
        _refuse_without_entries(connection, of)
        return 0
    contents = ErasedContents()
    for sequence, content_digest in rows:
        contents.add(sequence, bytes(content_digest))
    said = Erasure(by=by, erased=contents.count, of=contents.digest)
    head = append(connection, [Sealed(kind="erasure", content=encode_content(said))], key, by=by)
    assert head is not None
    gone: dict[str, Any] = {"content": None, "verdict_id": None, "owner_key": None, "task_key": None}
    connection.execute(
        update(audit_contents)
        .where(beside.sequence.in_([sequence for sequence, _ in rows]))
        .values(**gone, erased_in=head.sequence)
    )
    return contents.count


def _refuse_without_entries(connection: Connection, of: list[ColumnElement[bool]]) -> None:
    """Another process may have erased them meanwhile; what is there still has lost its entries."""
    left = connection.scalars(select(beside.sequence).where(*of).order_by(beside.sequence)).all()
    if left:
        raise AuditTrailError(
            f"{len(left):,} contents cannot be erased, from entry {left[0]:,} on: their entries are gone from the "
            f"audit trail, which was tampered with. Run `flywheel audit verify`"
        )


def _of(tenant_id: str, tasks: Collection[str] | None) -> list[ColumnElement[bool]]:
    owned = [beside.owner_key == key_of(tenant_id)]
    return owned if tasks is None else [*owned, beside.task_key.in_([key_of(task) for task in tasks])]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)
