"""Tasks that run once under their id: who runs which, and what became of it; outcomes are a tenant's.

Revision: 0020_task_runs
"""

import sqlalchemy as sa
from alembic import op

revision = "0020_task_runs"
down_revision = "0019_agent_registry"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table; two tenants may have outcomes of tasks with the same id."""
    op.create_table(
        "task_runs",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="of the task: another one must not have its id"),
        sa.Column("claim", sa.Text(), nullable=False, comment="who runs it, or ran it"),
        sa.Column("runner", sa.Text(), nullable=False, comment="the arbiter that has the claim"),
        sa.Column("expires_at", INSTANT, nullable=False, comment="another may claim it then, unless it has a result"),
        sa.Column("finished_at", INSTANT, comment="null: it runs"),
        sa.Column("result", sa.LargeBinary(), comment="what became of it, as JSON"),
        sa.PrimaryKeyConstraint("tenant_id", "task_id", name=op.f("pk_task_runs")),
    )
    op.create_index("ix_task_runs_runner", "task_runs", ["runner"], postgresql_where=sa.text("finished_at IS NULL"))
    op.create_index("ix_task_runs_finished_at", "task_runs", ["finished_at"])
    op.add_column(
        "task_outcomes",
        sa.Column("tenant_id", sa.Text(), nullable=False, server_default="", comment="empty: of an earlier version"),
    )
    op.drop_constraint("pk_task_outcomes", "task_outcomes", type_="primary")
    op.create_primary_key("pk_task_outcomes", "task_outcomes", ["tenant_id", "task_id"])


def downgrade() -> None:
    """Take it back. Of outcomes of several tenants with one id one stays: an id was one task then."""
    op.execute(
        "DELETE FROM task_outcomes AS one USING task_outcomes AS other"
        " WHERE one.task_id = other.task_id AND one.tenant_id > other.tenant_id"
    )
    op.drop_constraint("pk_task_outcomes", "task_outcomes", type_="primary")
    op.create_primary_key("pk_task_outcomes", "task_outcomes", ["task_id"])
    op.drop_column("task_outcomes", "tenant_id")
    op.drop_table("task_runs")
