"""The benchmark data pool: ledger, quarantine, hot tier, statistics, batches.

Revision: 0001_pool
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001_pool"
down_revision = None

# Written 3 times faster under lz4 than under the default; a server built without it still works.
PAYLOAD_COMPRESSION = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE hot_points ALTER COLUMN payload SET COMPRESSION lz4;
    END IF;
END $$
"""


def upgrade() -> None:
    """Create the pool's tables."""
    op.create_table(
        "agent_statistics",
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False, comment="the partition that made the row"),
        sa.Column("tasks", sa.BigInteger(), nullable=False),
        sa.Column("successes", sa.BigInteger(), nullable=False),
        sa.Column("quality_sum", sa.Double(), nullable=False),
        sa.Column("latency_ms_sum", sa.Double(), nullable=False),
        sa.Column("tokens_sum", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "agent_id", "task_type", "day", name=op.f("pk_agent_statistics")),
    )
    op.create_index("ix_agent_statistics_agent", "agent_statistics", ["agent_id", "task_type", "hour"], unique=False)
    op.create_index("ix_agent_statistics_day", "agent_statistics", ["day"], unique=False)
    op.create_table(
        "batches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False, comment="the oldest point's timestamp"),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False, comment="the newest point's timestamp"),
        sa.Column("criteria", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("distribution", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("quality", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
    op.create_table(
        "days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column(
            "revision", sa.BigInteger(), nullable=False, comment="raised whenever the day's lines or reviews change"
        ),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("validated_revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("validated_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("anonymized_revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("statistics_revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("lines", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("lines_in_points", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="lines"),
        sa.Column("duplicates", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="lines"),
        sa.Column("waiting", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="lines"),
        sa.Column("points", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "report",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="the last ValidationReport, whole",
        ),
        sa.Column(
            "privacy_violations",
            sa.BigInteger(),
            nullable=True,
            comment="found by the last check; null before the first",
        ),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_days")),
    )
    op.create_table(
        "hot_points",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("timestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("complexity", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("overall_score", sa.Double(), nullable=False),
        sa.Column("total_reward", sa.Double(), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("tokens_used", sa.BigInteger(), nullable=False),
        sa.Column("rl_ready", sa.Boolean(), nullable=False),
        sa.Column(
            "payload",
            sa.Text(),
            nullable=False,
            comment="the point's wire JSON, compressed by lz4 where the server has it",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hot_points")),
    )
    op.create_index(
        "ix_hot_points_agent_task_type_timestamp", "hot_points", ["agent_id", "task_type", "timestamp"], unique=False
    )
    op.create_index(op.f("ix_hot_points_day"), "hot_points", ["day"], unique=False)
    op.create_index(op.f("ix_hot_points_tenant_id"), "hot_points", ["tenant_id"], unique=False)
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Text(), nullable=False, comment="digest of day and line"),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True, comment="null where it cannot be read"),
        sa.Column("gates", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("reasons", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("note", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("reviewed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('pending', 'approved', 'rejected')", name=op.f("ck_quarantine_state_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_index(op.f("ix_quarantine_day"), "quarantine", ["day"], unique=False)
    op.create_table(
        "segments",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("torn", sa.BigInteger(), nullable=False, comment="frames lost to a torn tail or a failed checksum"),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("written_day", sa.Date(), nullable=False, comment="the day of lines without a readable task or time"),
        sa.Column("stray_lines", sa.BigInteger(), nullable=False, comment="lines without a readable task or time"),
        sa.Column("indexed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sa.UniqueConstraint("name", name=op.f("uq_segments_name")),
    )
    op.create_index(
        "ix_segments_stray_day", "segments", ["written_day"], unique=False, postgresql_where=sa.text("stray_lines > 0")
    )
    op.create_table(
        "task_type_profiles",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("points", sa.BigInteger(), nullable=False),
        sa.Column(
            "latency_ms",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="histogram: bucket of a logarithmic scale to count",
        ),
        sa.Column(
            "tokens",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="histogram: bucket of a logarithmic scale to count",
        ),
        sa.PrimaryKeyConstraint("day", "task_type", name=op.f("pk_task_type_profiles")),
    )
    op.create_table(
        "tasks",
        sa.Column("task_key", sa.LargeBinary(), nullable=False, comment="blake2b of taskId"),
        sa.Column(
            "tenant_key",
            sa.LargeBinary(),
            nullable=False,
            comment="blake2b of tenantId; empty where the logs name none",
        ),
        sa.Column(
            "first_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="the earliest timestamp under exactly this tenant key",
        ),
        sa.Column("routed", sa.Boolean(), nullable=False, comment="a routing decision is among the logs"),
        sa.Column(
            "owner_key",
            sa.LargeBinary(),
            nullable=True,
            comment="the tenant its lines are joined under; null where several claim them",
        ),
        sa.Column("day", sa.Date(), nullable=True, comment="the partition; null only while a segment is indexed"),
        sa.Column("segments", sa.ARRAY(sa.Integer()), nullable=False),
        sa.PrimaryKeyConstraint("task_key", "tenant_key", name=op.f("pk_tasks")),
    )
    op.create_index("ix_tasks_day", "tasks", ["day"], unique=False)
    op.create_table(
        "tier_days",
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False, comment="of the day it was made from"),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False, comment="of the points the tier's day was made from"),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("tier IN ('hot', 'warm', 'cold')", name=op.f("ck_tier_days_tier_known")),
        sa.PrimaryKeyConstraint("tier", "day", name=op.f("pk_tier_days")),
    )
    op.create_table(
        "batch_points",
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("point_id", sa.Text(), nullable=False),
        sa.Column("source_task", sa.Text(), nullable=False, comment="what no two phases of one batch share"),
        sa.Column("day", sa.Date(), nullable=False),
        sa.CheckConstraint("phase IN ('sft', 'grpo')", name=op.f("ck_batch_points_phase_known")),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=op.f("fk_batch_points_batch_id_batches")),
        sa.PrimaryKeyConstraint("batch_id", "phase", "position", name=op.f("pk_batch_points")),
    )
    op.create_index("ix_batch_points_point", "batch_points", ["point_id"], unique=False)
    op.create_index("uq_batch_points_phase_point", "batch_points", ["phase", "point_id"], unique=True)

    op.execute(PAYLOAD_COMPRESSION)


def downgrade() -> None:
    """Drop them."""
    op.drop_index("uq_batch_points_phase_point", table_name="batch_points")
    op.drop_index("ix_batch_points_point", table_name="batch_points")
    op.drop_table("batch_points")
    op.drop_table("tier_days")
    op.drop_index("ix_tasks_day", table_name="tasks")
    op.drop_table("tasks")
    op.drop_table("task_type_profiles")
    op.drop_index("ix_segments_stray_day", table_name="segments", postgresql_where=sa.text("stray_lines > 0"))
    op.drop_table("segments")
    op.drop_index(op.f("ix_quarantine_day"), table_name="quarantine")
    op.drop_table("quarantine")
    op.drop_index(op.f("ix_hot_points_tenant_id"), table_name="hot_points")
    op.drop_index(op.f("ix_hot_points_day"), table_name="hot_points")
    op.drop_index("ix_hot_points_agent_task_type_timestamp", table_name="hot_points")
    op.drop_table("hot_points")
    op.drop_table("days")
    op.drop_table("batches")
    op.drop_index("ix_agent_statistics_day", table_name="agent_statistics")
    op.drop_index("ix_agent_statistics_agent", table_name="agent_statistics")
    op.drop_table("agent_statistics")
