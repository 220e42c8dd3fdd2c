"""Statistics say how many tasks used a tool and how rewards spread, which alerts compare; rewards are read by type.

Revision: 0008_tool_adoption
"""

import sqlalchemy as sa
from alembic import op

revision = "0008_tool_adoption"
down_revision = "0007_erasures"

UNKNOWN = "null where counted before this was"


def upgrade() -> None:
    """Add the columns, unknown for what was counted before, and the index."""
    tool_tasks = sa.Column("tool_tasks", sa.BigInteger(), comment=f"tasks with a tool call; {UNKNOWN}")
    op.add_column("agent_statistics", tool_tasks)
    op.add_column("agent_statistics", sa.Column("reward_sum", sa.Double(), comment=UNKNOWN))
    op.add_column("agent_statistics", sa.Column("reward_square_sum", sa.Double(), comment=UNKNOWN))
    op.create_index("ix_hot_points_task_type_timestamp", "hot_points", ["task_type", "timestamp"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_hot_points_task_type_timestamp", "hot_points")
    for column in ("reward_square_sum", "reward_sum", "tool_tasks"):
        op.drop_column("agent_statistics", column)
