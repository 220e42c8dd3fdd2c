"""Points that were imported from where nobody took latency or tokens.

Revision: 0017_imported_points
"""

import sqlalchemy as sa
from alembic import op

revision = "0017_imported_points"
down_revision = "0016_joining"

ABSENT = {
    "latency_ms": (sa.Double(), "null where the point was imported from where nobody took it"),
    "tokens_used": (sa.BigInteger(), "null as latency_ms"),
}
TIMED = "tasks that have a latency; null where all have, as in rows of earlier versions"
COUNTED = ("agent_statistics", "daily_statistics")


def upgrade() -> None:
    """Let points be without them, and count the tasks that have a latency."""
    for name, (kind, comment) in ABSENT.items():
        op.alter_column("hot_points", name, existing_type=kind, nullable=True, comment=comment)
    for table in COUNTED:
        op.add_column(table, sa.Column("timed_tasks", sa.BigInteger(), comment=TIMED))


def downgrade() -> None:
    """Drop the counts. The hot tier gives up points without latency or tokens: the lake keeps them."""
    for table in COUNTED:
        op.drop_column(table, "timed_tasks")
    op.execute("DELETE FROM hot_points WHERE latency_ms IS NULL OR tokens_used IS NULL")
    for name, (kind, _) in ABSENT.items():
        op.alter_column("hot_points", name, existing_type=kind, nullable=False, comment=None)
