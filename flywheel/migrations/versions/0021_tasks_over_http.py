"""Tasks over HTTP: keys that may run them, tasks that callers do themselves, and cancelling from elsewhere.

Revision: 0021_tasks_over_http
"""

import sqlalchemy as sa
from alembic import op

revision = "0021_tasks_over_http"
down_revision = "0020_task_runs"


def upgrade() -> None:
    """Add the columns. Keys that there are go on sending records, and run nothing."""
    op.add_column(
        "api_keys",
        sa.Column(
            "may_run_tasks",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="by agents, which costs money",
        ),
    )
    op.add_column(
        "task_runs", sa.Column("routed", sa.LargeBinary(), comment="where the caller does it: the decision, as JSON")
    )
    op.add_column("task_runs", sa.Column("cancel_reason", sa.Text(), comment="somebody asked its runner to end it"))


def downgrade() -> None:
    """Take them back. A task that was routed for its caller is none that runs."""
    op.execute("DELETE FROM task_runs WHERE routed IS NOT NULL AND finished_at IS NULL")
    op.drop_column("task_runs", "cancel_reason")
    op.drop_column("task_runs", "routed")
    op.drop_column("api_keys", "may_run_tasks")
