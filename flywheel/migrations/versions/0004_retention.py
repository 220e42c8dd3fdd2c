"""Days say when retention removed their points.

Revision: 0004_retention
"""

import sqlalchemy as sa
from alembic import op

revision = "0004_retention"
down_revision = "0003_gates_of_points"


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "days",
        sa.Column(
            "points_removed_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="when retention emptied what the tiers are made from",
        ),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("days", "points_removed_at")
