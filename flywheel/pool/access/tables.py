"""Who may see what of the pool, by which token, and who did: the tables of access in PostgreSQL."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from flywheel.database import Instant, metadata

access_grants = Table(
    "access_grants",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("principal", Text, nullable=False, comment="name of the PostgreSQL role whose access it is"),
    Column("role", Text, nullable=False),
    Column("tenants", ARRAY(Text), comment="their keyed hashes; null: all"),
    Column("aliases", ARRAY(Text), comment="the same tenants' hashes under the other salt, while it is rotated"),
    Column("tenant_keys", ARRAY(LargeBinary), comment="the same as in quarantine; reviewers only"),
    Column("fields", Text, nullable=False),
    Column("since", Instant, comment="of points, included"),
    Column("until", Instant, comment="of points, not included"),
    Column("reason", Text, nullable=False),
    Column("requested_at", Instant, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("needs_approval", Boolean, nullable=False, server_default=text("true")),
    Column("approved_at", Instant),
    Column("approved_by", Text),
    Column("expires_at", Instant, comment="null: never"),
    Column("revoked_at", Instant),
    Column("revoked_by", Text),
    Column("revoked_because", Text),
    CheckConstraint("role IN ('rl-trainer', 'analyst', 'arbiter', 'reviewer', 'admin')", name="role_known"),
    CheckConstraint("fields IN ('all', 'anonymized')", name="fields_known"),
    CheckConstraint("cardinality(tenants) > 0", name="tenants_named"),
    CheckConstraint("since < until", name="range_not_empty"),
    CheckConstraint("(approved_at IS NULL) = (approved_by IS NULL)", name="approval_signed"),
    CheckConstraint("approved_by <> requested_by AND approved_by <> principal", name="four_eyes"),
    CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revocation_signed"),
)
Index("ix_access_grants_principal", access_grants.c.principal)

access_tokens = Table(
    "access_tokens",
    metadata,
    Column("id", Text, primary_key=True, comment="the part of the token that is no secret"),
    Column("grant_id", Integer, ForeignKey("access_grants.id"), nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="keyed hash of the whole token"),
    Column("salt", Text, comment="id of the salt its key is derived from; null where an earlier version issued it"),
    Column("issued_at", Instant, nullable=False),
    Column("issued_by", Text, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("revoked_at", Instant),
    Column("revoked_by", Text),
)

access_audit = Table(
    "access_audit",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("at", Instant, nullable=False, server_default=text("clock_timestamp()")),
    Column("principal", Text, nullable=False, comment="who did it, or tried to"),
    Column("session", Text, nullable=False, server_default=text("session_user")),
    Column("role", Text),
    Column("grant_id", Integer),
    Column("action", Text, nullable=False),
    Column("asked", JSONB, nullable=False, server_default=text("'{}'")),
    Column("rows", BigInteger, comment="that were given out; null where none are counted"),
    Column("allowed", Boolean, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''"), comment="of a refusal or decision"),
)
Index("ix_access_audit_principal_at", access_audit.c.principal, access_audit.c.at)
