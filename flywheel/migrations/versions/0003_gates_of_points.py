"""Hot points say which gates they did not hold, quarantined lines whose task they are of.

Revision: 0003_gates_of_points
"""

import sqlalchemy as sa
from alembic import op

revision = "0003_gates_of_points"
down_revision = "0002_arbiter"


def upgrade() -> None:
    """Add the columns; points from before hold every gate as far as anybody knows, lines from before are nobody's."""
    for name in ("warnings", "waived"):
        op.add_column(
            "hot_points", sa.Column(name, sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("'{}'"))
        )
    op.add_column(
        "quarantine",
        sa.Column(
            "owner_key",
            sa.LargeBinary(),
            nullable=True,
            comment="blake2b of the tenant its task is joined under; null where nobody's",
        ),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_column("quarantine", "owner_key")
    for name in ("waived", "warnings"):
        op.drop_column("hot_points", name)
