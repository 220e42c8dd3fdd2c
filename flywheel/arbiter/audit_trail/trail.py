"""The audit trail in PostgreSQL: entries are appended, in one line whoever appends, and read in their order.

Appending takes an advisory lock until the caller's transaction ends, so that the sequence has no gaps and no entry two
successors; the lock is the last thing that a transaction should take. A content that is in the trail is not appended
again, whoever hands it over how often.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Engine, Row, Select, func, select, text

from flywheel.arbiter.audit_trail.chain import BEFORE_THE_FIRST, Entry, Index, Read, index_of, linked
from flywheel.arbiter.audit_trail.contents import KeyAnnounced, Sealed, encode_content, read_content
from flywheel.arbiter.audit_trail.heads import Head, signed_head
from flywheel.arbiter.audit_trail.keys import PublicKey, SigningKey, key_id_of
from flywheel.arbiter.audit_trail.tables import audit_contents, audit_entries
from flywheel.errors import AccessError, AuditTrailError, SigningKeyError
from flywheel.pool.headers import key_of

TRAIL_LOCK = 0x666C79_747261696C  # "flytrail"
READ_AT_ONCE = 1_000
entry = audit_entries.c
beside = audit_contents.c

HIDDEN = text("SELECT row_security_active('audit_entries') OR row_security_active('audit_contents')")

GUARDS = {
    "keep_audit_entries": "audit_entries",
    "follow_audit_entries": "audit_entries",
    "keep_audit_contents": "audit_contents",
    "erase_audit_contents": "audit_contents",
}
"""Triggers that hold the trail, by name, and the tables that they hold."""


class TrailKey(Struct, frozen=True, kw_only=True):
    """A public key with its validity: it signed from ``since`` on, ``until`` another took its place.

    ``sequence`` is of the entry that announces it; ``public_key`` has 64 hex digits.
    """

    id: str
    public_key: str
    by: str
    sequence: int
    since: datetime
    until: datetime | None = None


def append(
    connection: Connection, sealed: Sequence[Sealed], key: SigningKey, *, by: str = "the arbiter"
) -> Head | None:
    """Append those that are not in the trail, in their order; the trail's head then, signed. None: it has no entry.

    An empty trail begins with the key.

    Args:
        connection: in a transaction, which should end soon: others wait for it.
        sealed: contents; verdicts with the signature of who decided.
        key: signs the entries.
        by: who is named where a key is announced.

    Raises:
        SigningKeyError: the trail is signed with another key, or a verdict with one that the trail never had.
        DatabaseError: PostgreSQL cannot be used.
    """
    last, at = locked(connection)
    current = current_key(connection)
    new = without_known(connection, sealed)
    if current is not None:
        require(key, current)
    refuse_strangers(connection, new, key)
    if current is None and new:
        new = [announcement(key.public, by=by), *new]
    entries: list[Entry] = []
    for one in new:
        made = linked(last, kind=one.kind, at=at, content_digest=one.digest, verdict_signature=one.signature, key=key)
        entries.append(made)
        last = made.sequence, made.hash
    insert(connection, entries, new)
    return signed_head(Head(sequence=last[0], hash=last[1].hex(), at=at, signature=""), key) if last[0] else None


def announce(connection: Connection, new: PublicKey, by_key: SigningKey, *, by: str) -> None:
    """Let another key sign from here on. ``by_key`` is the present one, or the new one itself where that was lost.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    last, at = locked(connection)
    one = announcement(new, by=by)
    made = linked(last, kind=one.kind, at=at, content_digest=one.digest, verdict_signature=None, key=by_key)
    insert(connection, [made], [one])


def announcement(key: PublicKey, *, by: str) -> Sealed:
    """The content that announces a key."""
    return Sealed(kind="key", content=encode_content(KeyAnnounced(key_id=key.id, public_key=key.hex, by=by)))


def locked(connection: Connection) -> tuple[tuple[int, bytes], datetime]:
    """Sequence and hash of the last entry, which stays it until the transaction ends; and PostgreSQL's time."""
    connection.execute(select(func.pg_advisory_xact_lock(TRAIL_LOCK)))
    at = connection.execute(select(func.clock_timestamp())).scalar_one()
    row = connection.execute(select(entry.sequence, entry.hash).order_by(entry.sequence.desc()).limit(1)).one_or_none()
    return ((0, BEFORE_THE_FIRST) if row is None else (row.sequence, bytes(row.hash))), at


def current_key(connection: Connection) -> PublicKey | None:
    """The key that entries are signed with now; None before the first entry."""
    found = connection.execute(keys_in_trail().order_by(entry.sequence.desc()).limit(1)).one_or_none()
    return None if found is None else PublicKey(key_in(found).public_key)


def require(key: SigningKey, current: PublicKey) -> None:
    """Hold the key of this process against the one that the trail is signed with.

    Raises:
        SigningKeyError: it is another one.
    """
    if key.public != current:
        raise SigningKeyError(
            f"this process signs with the key {key.id}, and the audit trail is signed with {current.id}. Give it that "
            f"one (FLYWHEEL_SIGNING_KEY, or secrets/signing_key below the home of who has it); where it is lost, run "
            f"`flywheel keys signing rotate --lost`"
        )


def refuse_strangers(connection: Connection, sealed: Sequence[Sealed], key: SigningKey) -> None:
    """Refuse verdicts that nobody could verify.

    Raises:
        SigningKeyError: one was signed with a key that the trail never had.
    """
    signers = {key_id_of(one.signature) for one in sealed if one.signature is not None} - {key.id}
    strangers = signers - {known.id for known in list_keys(connection)} if signers else signers
    if strangers:
        raise SigningKeyError(
            f"verdicts that wait are signed with the key {min(strangers)}, which the audit trail never had: "
            f"their installation had a key of its own. They wait on; nobody could verify them in this trail"
        )


def without_known(connection: Connection, sealed: Sequence[Sealed]) -> list[Sealed]:
    """Those whose content the trail does not have, each once. One that was erased it has, too."""
    by_digest = {one.digest: one for one in sealed}
    if not by_digest:
        return []
    found = connection.execute(select(entry.content_digest).where(entry.content_digest.in_(list(by_digest))))
    known = {bytes(digest) for (digest,) in found}
    return [one for digest, one in by_digest.items() if digest not in known]


def insert(connection: Connection, entries: Sequence[Entry], sealed: Sequence[Sealed]) -> None:
    """Write entries and what they say."""
    if not entries:
        return
    connection.execute(audit_entries.insert(), [_row(one) for one in entries])
    contents = [_content_row(one, said) for one, said in zip(entries, sealed, strict=True)]
    connection.execute(audit_contents.insert(), contents)


# --- reading --------------------------------------------------------------------------------------------------------


def read_trail(connection: Connection) -> Iterator[Read]:
    """All of it in its order, some at a time, with what lies beside each entry.

    Raises:
        AccessError: row security hides a part of it from this database user.
        DatabaseError: PostgreSQL cannot be used.
    """
    hidden = connection.execute(HIDDEN).scalar_one()
    if hidden:
        raise AccessError(
            "this database user is shown a part of the audit trail alone, and a part cannot be verified; run this as "
            "the service's, or verify what `flywheel audit export` wrote (--file)"
        )
    rows = connection.execution_options(stream_results=True, yield_per=READ_AT_ONCE).execute(
        whole().order_by(entry.sequence)
    )
    return map(read_of, rows)


def present_head(engine: Engine, key: SigningKey) -> Head:
    """The trail's head now, signed.

    Raises:
        AuditTrailError: the trail has no entry yet.
        DatabaseError: PostgreSQL cannot be used.
    """
    with engine.connect() as connection:
        query = select(entry.sequence, entry.hash, func.clock_timestamp().label("at")).order_by(entry.sequence.desc())
        row = connection.execute(query.limit(1)).one_or_none()
    if row is None:
        raise AuditTrailError("the audit trail has no entry yet; it begins with the first verdict of an arbiter")
    return signed_head(Head(sequence=row.sequence, hash=bytes(row.hash).hex(), at=row.at, signature=""), key)


def holds(engine: Engine, head: Head) -> bool:
    """Whether the trail still has the entry that a head ends with."""
    with engine.connect() as connection:
        found = connection.execute(select(entry.hash).where(entry.sequence == head.sequence)).scalar_one_or_none()
    return found is not None and bytes(found).hex() == head.hash


def newest(
    connection: Connection, *, tenant_id: str | None = None, task_id: str | None = None, limit: int = 50
) -> list[Read]:
    """The last entries, newest first; with a tenant or task only those that are still known to be of it."""
    query = whole()
    if tenant_id is not None:
        query = query.where(beside.owner_key == key_of(tenant_id))
    if task_id is not None:
        query = query.where(beside.task_key == key_of(task_id))
    return [read_of(row) for row in connection.execute(query.order_by(entry.sequence.desc()).limit(limit))]


def find(connection: Connection, name: str) -> Read:
    """An entry by its sequence, or a verdict by its id.

    Raises:
        AuditTrailError: there is none.
    """
    by_sequence = name.isascii() and name.isdigit() and len(name) < 19
    condition = entry.sequence == int(name) if by_sequence else beside.verdict_id == name
    row = connection.execute(whole().where(condition)).one_or_none()
    if row is None:
        what = f"no entry {name}" if by_sequence else f"no verdict {name}: it was erased, or never appended"
        raise AuditTrailError(f"the audit trail has {what}; `flywheel audit list` shows the last ones")
    return read_of(row)


def list_keys(connection: Connection) -> list[TrailKey]:
    """All keys that the trail was ever signed with, oldest first."""
    rows = connection.execute(keys_in_trail().order_by(entry.sequence)).all()
    ends = [*(row.at for row in rows[1:]), None]
    return [
        TrailKey(
            id=said.key_id, public_key=said.public_key, by=said.by, sequence=row.sequence, since=row.at, until=until
        )
        for row, said, until in zip(rows, map(key_in, rows), ends, strict=False)
    ]


def missing_guards(connection: Connection) -> list[str]:
    """Triggers that should hold the trail and do not: dropped, or not enabled for everybody."""
    rows = connection.execute(
        text(
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger"
            " WHERE tgrelid = ANY (ARRAY['audit_entries', 'audit_contents']::regclass[]) AND tgenabled = 'A'"
        )
    ).all()
    there = {(name, table) for name, table in rows}
    return [name for name, table in GUARDS.items() if (name, table) not in there]


def whole() -> Select[Any]:
    """Entries with what lies beside them."""
    joined = audit_entries.outerjoin(audit_contents, entry.sequence == beside.sequence)
    columns = (beside.verdict_id, beside.owner_key, beside.task_key, beside.content, beside.erased_in)
    return select(audit_entries, *columns).select_from(joined)


def keys_in_trail() -> Select[Any]:
    """The entries that announce keys."""
    joined = audit_entries.join(audit_contents, entry.sequence == beside.sequence)
    return select(entry.sequence, entry.at, beside.content).select_from(joined).where(entry.kind == "key")


def key_in(row: Row[Any]) -> KeyAnnounced:
    """What an entry that announces a key says.

    Raises:
        AuditTrailError: its content is another one, or gone.
    """
    said = read_content(bytes(row.content or b""))
    if not isinstance(said, KeyAnnounced):
        raise AuditTrailError(
            f"entry {row.sequence} of the audit trail should announce a key; run `flywheel audit verify`"
        )
    return said


def read_of(row: Row[Any]) -> Read:
    """A row as it is walked along."""
    made = Entry(
        sequence=row.sequence,
        previous=bytes(row.previous),
        hash=bytes(row.hash),
        kind=row.kind,
        at=row.at,
        content_digest=bytes(row.content_digest),
        verdict_signature=row.verdict_signature,
        signature=row.signature,
    )
    index = Index(verdict_id=row.verdict_id, owner_key=_bytes(row.owner_key), task_key=_bytes(row.task_key))
    return Read(entry=made, content=_bytes(row.content), erased_in=row.erased_in, index=index)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _row(made: Entry) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__struct_fields__}


def _content_row(made: Entry, sealed: Sealed) -> dict[str, Any]:
    index = index_of(read_content(sealed.content))
    named = {name: getattr(index, name) for name in index.__struct_fields__}
    return {"sequence": made.sequence, "at": made.at, "content": sealed.content, **named}
