"""Hot payloads are stored as they are where the server could only compress them slowly.

Revision: 0011_hot_payload
"""

from alembic import op

revision = "0011_hot_payload"
down_revision = "0010_daily_statistics"

# pglz, all that a server without lz4 has, takes three times as long as everything else about a row.
STORE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE hot_points ALTER COLUMN payload SET STORAGE EXTERNAL;
    END IF;
END $$
"""


def upgrade() -> None:
    """Let rows from now on be stored so; those of before are read as they are."""
    op.execute(STORE)


def downgrade() -> None:
    """Let them be compressed again."""
    op.execute("ALTER TABLE hot_points ALTER COLUMN payload SET STORAGE EXTENDED")
