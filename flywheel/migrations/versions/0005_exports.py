"""Batches of every phase, split by task, that give their points back when what they were made for fails.

Revision: 0005_exports
"""

import sqlalchemy as sa
from alembic import op

revision = "0005_exports"
down_revision = "0004_retention"

PHASES = "phase IN ('sft', 'turn-level-rl', 'grpo', 'curriculum')"
OLD_PHASES = "phase IN ('sft', 'grpo')"
CHECK = "ck_batch_points_phase_known"
SPLITS = "split IN ('train', 'validation', 'held-out')"
MARKS = "uq_batch_points_phase_point"


def upgrade() -> None:
    """Add the columns; batches from before were all for training, and their points still are."""
    op.add_column("batches", sa.Column("released_at", sa.DateTime(timezone=True), comment="when its marks were lifted"))
    op.add_column("batches", sa.Column("released_because", sa.Text(), comment="why, in words"))
    op.add_column(
        "batch_points",
        sa.Column(
            "split",
            sa.Text(),
            nullable=False,
            server_default=sa.text("'train'"),
            comment="train, validation or held-out: a task is in one",
        ),
    )
    op.add_column(
        "batch_points",
        sa.Column(
            "released",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="its batch failed: the point may be chosen for the phase again",
        ),
    )
    op.drop_constraint(op.f(CHECK), "batch_points")
    op.create_check_constraint(op.f(CHECK), "batch_points", PHASES)
    op.create_check_constraint(op.f("ck_batch_points_split_known"), "batch_points", SPLITS)
    op.drop_index(MARKS, "batch_points")
    op.create_index(MARKS, "batch_points", ["phase", "point_id"], unique=True, postgresql_where=sa.text("NOT released"))
    op.create_index(
        "ix_batch_points_heldout", "batch_points", ["source_task"], postgresql_where=sa.text("split = 'held-out'")
    )


def downgrade() -> None:
    """Drop them, and what the version before cannot say: points of other phases, and points given back."""
    op.execute("DELETE FROM batch_points WHERE released OR phase NOT IN ('sft', 'grpo')")
    op.execute("DELETE FROM batches WHERE NOT EXISTS (SELECT FROM batch_points WHERE batch_id = batches.id)")
    op.drop_index("ix_batch_points_heldout", "batch_points")
    op.drop_index(MARKS, "batch_points")
    op.create_index(MARKS, "batch_points", ["phase", "point_id"], unique=True)
    op.drop_constraint(op.f("ck_batch_points_split_known"), "batch_points")
    op.drop_constraint(op.f(CHECK), "batch_points")
    op.create_check_constraint(op.f(CHECK), "batch_points", OLD_PHASES)
    for column in ("released", "split"):
        op.drop_column("batch_points", column)
    for column in ("released_because", "released_at"):
        op.drop_column("batches", column)
