"""The receiver's keys, one tenant each, and the requests that named themselves so that a retry stores nothing twice.

Revision: 0015_api_keys
"""

import sqlalchemy as sa
from alembic import op

revision = "0015_api_keys"
down_revision = "0014_tenant_salts"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False, comment="the part of the key that is no secret"),
        sa.Column("tenant_id", sa.Text(), nullable=False, comment="whose logs come with it, as the raw logs name it"),
        sa.Column("name", sa.Text(), nullable=False, comment="what people call it; may be empty"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="blake2b of the whole key"),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("revoked_at", INSTANT, nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index("ix_api_keys_tenant_id", "api_keys", ["tenant_id"])
    op.create_table(
        "received_requests",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, comment="the request's Idempotency-Key"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="blake2b of path and body"),
        sa.Column("claim", sa.Text(), nullable=False, comment="of the receiver that works, or worked, on it"),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("status", sa.Integer(), nullable=True, comment="null: under way"),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_received_requests_key_id_api_keys"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", "name", name=op.f("pk_received_requests")),
    )
    op.create_index("ix_received_requests_at", "received_requests", ["at"])


def downgrade() -> None:
    """Forget all keys: who had one needs another."""
    op.drop_table("received_requests")
    op.drop_table("api_keys")
