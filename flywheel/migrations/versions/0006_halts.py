"""Halts of the pool, which only a person lifts.

Revision: 0006_halts
"""

import sqlalchemy as sa
from alembic import op

revision = "0006_halts"
down_revision = "0005_exports"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "halts",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False, comment="whose anonymized points hold what they should not"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted_by", sa.Text(), nullable=True, comment="who looked at it"),
        sa.Column("note", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halts")),
    )
    op.create_index("uq_halts_open_day", "halts", ["day"], unique=True, postgresql_where=sa.text("lifted_at IS NULL"))


def downgrade() -> None:
    """Drop it."""
    op.drop_table("halts")
