"""The arbiter: agents, what it learned about them, what it ran, which model served when.

Revision: 0002_arbiter
"""

import sqlalchemy as sa
from alembic import op

revision = "0002_arbiter"
down_revision = "0001_pool"


def upgrade() -> None:
    """Create the arbiter's tables."""
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column(
            "model",
            sa.Text(),
            nullable=False,
            comment="base, a folder, models:/NAME/VERSION, or an endpoint's model name",
        ),
        sa.Column("model_family", sa.Text(), nullable=False),
        sa.Column("task_types", sa.ARRAY(sa.Text()), nullable=False, comment="empty: all"),
        sa.Column("languages", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("specializations", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("temperature", sa.Double(), nullable=False),
        sa.Column("usd_per_million_tokens", sa.Double(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("api_key_env", sa.Text(), nullable=False, comment="name of the variable, never the key"),
        sa.Column("timeout_s", sa.Double(), nullable=False),
        sa.Column("error_rate", sa.Double(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.CheckConstraint("status IN ('active', 'disabled')", name=op.f("ck_agents_status")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
    )
    op.create_table(
        "bandit_state",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("tasks", sa.BigInteger(), nullable=False),
        sa.Column("successes", sa.BigInteger(), nullable=False),
        sa.Column("quality_sum", sa.Double(), nullable=False, comment="of overall scores, each 0-1"),
        sa.Column("latency_ms_sum", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_bandit_state_agent_id_agents")),
        sa.PrimaryKeyConstraint("agent_id", "task_type", name=op.f("pk_bandit_state")),
    )
    op.create_table(
        "task_outcomes",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column(
            "label", sa.Text(), nullable=False, comment="the stream of traffic the task came in, for example before"
        ),
        sa.Column("source_id", sa.Text(), nullable=False, comment="the benchmark task"),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("quality", sa.Double(), nullable=False, comment="overall score, 0-1"),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("evaluated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_task_outcomes_agent_id_agents")),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_task_outcomes")),
    )
    op.create_index("ix_task_outcomes_label", "task_outcomes", ["label"])
    op.create_table(
        "alias_history",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alias_history")),
    )
    op.create_index("ix_alias_history_model", "alias_history", ["model_name", "alias", "set_at"])


def downgrade() -> None:
    """Drop the arbiter's tables."""
    for table in ("alias_history", "task_outcomes", "bandit_state", "agents"):
        op.drop_table(table)
