"""Daily roll-ups of the agents' statistics, by complexity too; what was counted before is of unknown complexity.

Revision: 0010_daily_statistics
"""

import sqlalchemy as sa
from alembic import op

revision = "0010_daily_statistics"
down_revision = "0009_tool_adoption"

ROLL_UP = """
INSERT INTO daily_statistics
SELECT agent_id, (hour AT TIME ZONE 'UTC')::date, task_type, 'unknown', day, sum(tasks), sum(successes),
    sum(quality_sum), sum(latency_ms_sum), sum(tokens_sum)
FROM agent_statistics GROUP BY 1, 2, 3, 5
"""

GROUPS = ("flywheel_analyst", "flywheel_arbiter")
# As for the hours (0008_access): for grants of all tenants, and only days that are within their range as a whole.
POLICY = """
CREATE POLICY of_grants ON daily_statistics FOR SELECT TO flywheel_analyst, flywheel_arbiter USING (
    EXISTS (
        SELECT FROM access_in_force AS held
        WHERE held.role IN ('analyst', 'arbiter') AND held.tenants IS NULL
            AND CAST(date AS timestamp) AT TIME ZONE 'UTC' >= held.since
            AND CAST(date + 1 AS timestamp) AT TIME ZONE 'UTC' <= held.until
    )
)
"""


def upgrade() -> None:
    """Make the table and fill it from the hours."""
    op.create_table(
        "daily_statistics",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("date", sa.Date(), nullable=False, comment="the UTC day of the tasks"),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("complexity", sa.Text(), nullable=False, comment="unknown where an older version counted"),
        sa.Column("day", sa.Date(), nullable=False, comment="the partition that made the row"),
        sa.Column("tasks", sa.BigInteger(), nullable=False),
        sa.Column("successes", sa.BigInteger(), nullable=False),
        sa.Column("quality_sum", sa.Double(), nullable=False),
        sa.Column("latency_ms_sum", sa.Double(), nullable=False),
        sa.Column("tokens_sum", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "date", "task_type", "complexity", "day", name=op.f("pk_daily_statistics")),
    )
    op.execute(ROLL_UP)
    op.create_index("ix_daily_statistics_day", "daily_statistics", ["day"])
    for group in GROUPS:
        op.execute(f"GRANT SELECT ON daily_statistics TO {group}")
    op.execute("GRANT SELECT (revision, statistics_revision) ON days TO flywheel_analyst")
    op.execute("ALTER TABLE daily_statistics ENABLE ROW LEVEL SECURITY")
    op.execute(POLICY)


def downgrade() -> None:
    """Drop it."""
    op.execute("REVOKE SELECT (revision, statistics_revision) ON days FROM flywheel_analyst")
    op.drop_table("daily_statistics")
