"""Joining: the tasks that wait for a log, which reviewers may see as they see the quarantine, and the watermark.

Revision: 0016_joining
"""

import sqlalchemy as sa
from alembic import op

revision = "0016_joining"
down_revision = "0014_tenant_salts"

INSTANT = sa.DateTime(timezone=True)
# As quarantine's in 0008_access.
SHOWN = """
CREATE POLICY of_grants ON waiting_tasks FOR SELECT TO flywheel_reviewer USING (EXISTS (
    SELECT FROM access_in_force AS held
    WHERE held.role = 'reviewer' AND held.fields = 'all'
        AND (held.tenants IS NULL OR waiting_tasks.owner_key = ANY (held.tenant_keys))
        AND waiting_tasks.day::timestamp AT TIME ZONE 'UTC' >= held.since
        AND (waiting_tasks.day + 1)::timestamp AT TIME ZONE 'UTC' <= held.until
))
"""


def upgrade() -> None:
    """Make the tables. They fill as days run and segments are taken in.

    Days with lines that wait become stale, so that each runs once and its tasks are known; not those whose raw lines
    retention removed.
    """
    op.create_table(
        "waiting_tasks",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("task_key", sa.LargeBinary(), nullable=False, comment="blake2b of taskId"),
        sa.Column(
            "owner_key",
            sa.LargeBinary(),
            nullable=False,
            comment="as in quarantine; empty where the logs name no tenant",
        ),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column(
            "tenant_id", sa.LargeBinary(), nullable=True, comment="its name as UTF-8; null where the logs name none"
        ),
        sa.Column("present", sa.ARRAY(sa.Text()), nullable=False, comment="the logs that came"),
        sa.Column("missing", sa.ARRAY(sa.Text()), nullable=False, comment="the logs that it lacks to be a point"),
        sa.Column("since", INSTANT, nullable=False, comment="when the first of its lines was taken in"),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "task_key", "owner_key", name=op.f("pk_waiting_tasks")),
    )
    op.create_index("ix_waiting_tasks_since", "waiting_tasks", ["since"])
    op.create_table(
        "watermark",
        sa.Column("singleton", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("at", INSTANT, nullable=False, comment="all that collectors wrote before it is in the ledger"),
        sa.Column("observed_at", INSTANT, nullable=False, comment="when collectors' folder was last looked at"),
        sa.Column(
            "held_by", sa.Text(), nullable=True, comment="the open segment that holds it back; null where none does"
        ),
        sa.Column("open_segments", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_watermark")),
        sa.CheckConstraint("singleton", name=op.f("ck_watermark_one_row")),
    )
    op.execute("GRANT SELECT ON waiting_tasks TO flywheel_reviewer")
    op.execute("ALTER TABLE waiting_tasks ENABLE ROW LEVEL SECURITY")
    op.execute(sa.text(SHOWN.replace(":", r"\:")))
    op.execute(
        "UPDATE days SET revision = revision + 1"
        " WHERE waiting > 0 AND EXISTS (SELECT FROM tasks WHERE tasks.day = days.day)"
    )


def downgrade() -> None:
    """Take it back. Tasks that expired are in quarantine until their day runs again, and then wait."""
    op.drop_table("watermark")
    op.execute("DROP POLICY of_grants ON waiting_tasks")
    op.execute("REVOKE SELECT ON waiting_tasks FROM flywheel_reviewer")
    op.drop_index("ix_waiting_tasks_since", table_name="waiting_tasks")
    op.drop_table("waiting_tasks")
