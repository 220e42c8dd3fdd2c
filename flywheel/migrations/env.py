"""Alembic's entry: migrations in one transaction under an advisory lock, so that two processes may start at once."""

from alembic import context
from sqlalchemy import create_engine, text

from flywheel.arbiter import tables as arbiter_tables
from flywheel.database import metadata
from flywheel.pool import tables as pool_tables

SCHEMA_LOCK = 0x666C79  # "fly"

assert arbiter_tables is not None
assert pool_tables is not None

engine = create_engine(context.config.attributes["url"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SCHEMA_LOCK})
        context.run_migrations()
engine.dispose()
