"""What judges said, kept for a tenant, and how often they did not say anything.

Revision: 0022_judges
"""

import sqlalchemy as sa
from alembic import op

revision = "0022_judges"
down_revision = "0021_tasks_over_http"


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "judge_opinions",
        sa.Column("tenant_id", sa.Text(), nullable=False, comment="whose answer it is about; nobody else is given it"),
        sa.Column(
            "digest", sa.LargeBinary(), nullable=False, comment="of judge, prompts, criterion, material and sample"
        ),
        sa.Column("finding", sa.LargeBinary(), nullable=False, comment="the score and its reason, as JSON"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "digest", name=op.f("pk_judge_opinions")),
    )
    op.create_index("ix_judge_opinions_created_at", "judge_opinions", ["created_at"])
    op.create_table(
        "judge_counts",
        sa.Column("judge", sa.Text(), nullable=False, comment="its id; panel: all together"),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False, comment="score, cached, or the kind of an abstention"),
        sa.Column("findings", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("judge", "criterion", "outcome", name=op.f("pk_judge_counts")),
    )


def downgrade() -> None:
    """Take them back; judges are asked anew."""
    op.drop_table("judge_counts")
    op.drop_table("judge_opinions")
