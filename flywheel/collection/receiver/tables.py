"""The receiver's tables in PostgreSQL: clients' keys, and the requests whose answers it remembers."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, false

from flywheel.database import Instant, metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True, comment="the part of the key that is no secret"),
    Column("tenant_id", Text, nullable=False, comment="whose logs come with it, as the raw logs name it"),
    Column("name", Text, nullable=False, comment="what people call it; may be empty"),
    Column("digest", LargeBinary, nullable=False, comment="blake2b of the whole key"),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("revoked_at", Instant),
    Column("revoked_by", Text),
    Column("may_run_tasks", Boolean, nullable=False, server_default=false(), comment="by agents, which costs money"),
)
Index("ix_api_keys_tenant_id", api_keys.c.tenant_id)

received_requests = Table(
    "received_requests",
    metadata,
    Column("key_id", Text, ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True, comment="the request's Idempotency-Key"),
    Column("digest", LargeBinary, nullable=False, comment="blake2b of path and body"),
    Column("claim", Text, nullable=False, comment="of the receiver that works, or worked, on it"),
    Column("at", Instant, nullable=False),
    Column("status", Integer, comment="null: under way"),
    Column("answer", LargeBinary),
)
Index("ix_received_requests_at", received_requests.c.at)
