"""Routing that ages and knows features: decayed sums beside the plain ones, regressions per agent, what tasks cost.

Revision: 0018_routing
"""

import sqlalchemy as sa
from alembic import op

revision = "0018_routing"
down_revision = "0017_imported_points"

INSTANT = sa.DateTime(timezone=True)
AGED = (
    sa.Column("weight", sa.Double(), comment="tasks, each counted by age at weighed_at, as all that follow"),
    sa.Column("aged_quality", sa.Double()),
    sa.Column("aged_squares", sa.Double(), comment="of qualities"),
    sa.Column("aged_latency_ms", sa.Double()),
    sa.Column("cost_weight", sa.Double(), comment="of tasks whose cost is known"),
    sa.Column("aged_cost_usd", sa.Double()),
    sa.Column("weighed_at", INSTANT, comment="moment of the newest outcome"),
)
# What an earlier version learned counts as new. The squares are not known: those of rewards that are all 0 or 1 are
# their sum, and the largest there can be, so that nothing is taken for surer than it is.
FILL = """
UPDATE bandit_state SET weight = tasks, aged_quality = quality_sum, aged_squares = quality_sum,
    aged_latency_ms = latency_ms_sum, cost_weight = 0, aged_cost_usd = 0, weighed_at = now()
"""


def upgrade() -> None:
    """Add the columns, fill them from what is known, and make the table of regressions."""
    for column in AGED:
        op.add_column("bandit_state", sa.Column(column.name, column.type, comment=column.comment))
    op.execute(FILL)
    for column in AGED:
        op.alter_column("bandit_state", column.name, nullable=False)
    op.add_column("task_outcomes", sa.Column("cost_usd", sa.Double(), comment="null: not known"))
    op.create_table(
        "routing_regressions",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("features", sa.ARRAY(sa.Text()), nullable=False, comment="names, in the order of the sums"),
        sa.Column(
            "precision",
            sa.ARRAY(sa.Double()),
            nullable=False,
            comment="sum of x x', row by row, weights as in bandit_state",
        ),
        sa.Column("moment", sa.ARRAY(sa.Double()), nullable=False, comment="sum of x times quality"),
        sa.Column("squares", sa.Double(), nullable=False, comment="sum of squared qualities"),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("weighed_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_routing_regressions_agent_id_agents")),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("pk_routing_regressions")),
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("routing_regressions")
    op.drop_column("task_outcomes", "cost_usd")
    for column in reversed(AGED):
        op.drop_column("bandit_state", column.name)
