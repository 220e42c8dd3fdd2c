"""What alerts and metrics read: tool calls and rewards in the statistics, rewards by type, readings of the lake.

Revision: 0009_tool_adoption
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009_tool_adoption"
down_revision = "0008_access"

UNKNOWN = "null where counted before this was"


def upgrade() -> None:
    """Add the columns, unknown for what was counted before, the index and the table."""
    tool_tasks = sa.Column("tool_tasks", sa.BigInteger(), comment=f"tasks with a tool call; {UNKNOWN}")
    op.add_column("agent_statistics", tool_tasks)
    op.add_column("agent_statistics", sa.Column("reward_sum", sa.Double(), comment=UNKNOWN))
    op.add_column("agent_statistics", sa.Column("reward_square_sum", sa.Double(), comment=UNKNOWN))
    op.create_index("ix_hot_points_task_type_timestamp", "hot_points", ["task_type", "timestamp"])
    op.create_table(
        "lake_readings",
        sa.Column("day", sa.Date(), nullable=False, comment="the UTC day on which the lake was asked"),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reading", JSONB(), nullable=False, comment="the day's last LakeReading, whole"),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_lake_readings")),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("lake_readings")
    op.drop_index("ix_hot_points_task_type_timestamp", "hot_points")
    for column in ("reward_square_sum", "reward_sum", "tool_tasks"):
        op.drop_column("agent_statistics", column)
