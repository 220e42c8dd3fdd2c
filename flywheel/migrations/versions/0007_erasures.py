"""Erasures of tenants: what was asked, when it was finished, what it touched.

Revision: 0007_erasures
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007_erasures"
down_revision = "0006_halts"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "erasures",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("tenant_hash", sa.Text(), nullable=False, comment="the keyed hash: the name itself is gone"),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True, comment="null while it is under way"),
        sa.Column("report", JSONB(), nullable=True, comment="what was removed; batches and models it had touched"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("erasures")
