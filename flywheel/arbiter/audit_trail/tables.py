"""The audit trail in PostgreSQL: a chain of entries that nobody changes, and beside it what they say.

Triggers hold both, also against the owner of the tables; see migration ``0023_audit_trail``.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, LargeBinary, Table, Text, text

from flywheel.database import Instant, metadata

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False, comment="from 1 on, without gaps"),
    Column("previous", LargeBinary, nullable=False, comment="hash of the entry before it; zeros for the first"),
    Column("hash", LargeBinary, nullable=False, comment="of all fields but signature"),
    Column("kind", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("content_digest", LargeBinary, nullable=False, unique=True),
    Column("verdict_signature", Text, comment="of a verdict, by the arbiter that decided"),
    Column("signature", Text, nullable=False, comment="of hash, by whoever appended it"),
    CheckConstraint("kind IN ('verdict', 'key', 'erasure')", name="kind_known"),
    CheckConstraint("(kind = 'verdict') = (verdict_signature IS NOT NULL)", name="verdict_signed"),
)
Index("ix_audit_entries_keys", audit_entries.c.sequence, postgresql_where=text("kind = 'key'"))

audit_contents = Table(
    "audit_contents",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Instant, nullable=False, comment="of the entry"),
    Column("verdict_id", Text, unique=True, comment="null where it is no verdict, or was erased"),
    Column("owner_key", LargeBinary, comment="blake2b of the tenant, as in quarantine; null as verdict_id"),
    Column("task_key", LargeBinary, comment="blake2b of the task; null as verdict_id"),
    Column("content", LargeBinary, comment="the bytes that were signed; null where they were erased"),
    Column("erased_in", BigInteger, comment="the entry of the erasure that removed the content"),
    CheckConstraint("(content IS NULL) = (erased_in IS NOT NULL)", name="erased_or_there"),
)
Index("ix_audit_contents_owner", audit_contents.c.owner_key, audit_contents.c.task_key)
Index("ix_audit_contents_at", audit_contents.c.at, postgresql_where=text("verdict_id IS NOT NULL"))
