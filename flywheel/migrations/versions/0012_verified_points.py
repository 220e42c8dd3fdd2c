"""Which points the privacy check looked at; calls of tools beside each point.

Revision: 0012_verified_points
"""

import sqlalchemy as sa
from alembic import op

revision = "0012_verified_points"
down_revision = "0011_hot_payload"

LOOKED_AT = "of the anonymized points that the last check looked at"
# Earlier versions placed a day behind its check. Points that were made anew since have another digest.
PLACED_BEHIND_ITS_CHECK = """
UPDATE days SET verified_digest = placed.digest
FROM (
    SELECT DISTINCT ON (day) day, revision, digest FROM tier_days WHERE tier IN ('warm', 'cold') AND rows > 0
    ORDER BY day, tier DESC
) AS placed
WHERE placed.day = days.day AND placed.revision = days.anonymized_revision AND days.privacy_violations = 0
"""


def upgrade() -> None:
    """Add the columns, and enter as looked at what was placed of the days that are clean."""
    op.add_column("days", sa.Column("verified_digest", sa.Text(), comment=LOOKED_AT))
    op.execute(PLACED_BEHIND_ITS_CHECK)
    op.add_column("hot_points", sa.Column("tool_calls", sa.BigInteger(), comment="null in rows of earlier versions"))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("hot_points", "tool_calls")
    op.drop_column("days", "verified_digest")
