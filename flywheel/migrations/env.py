"""Alembic's entry: migrations in one transaction under an advisory lock, so that two processes may start at once."""

from alembic import context
from sqlalchemy import create_engine, text

from flywheel.arbiter import tables as arbiter_tables
from flywheel.arbiter.audit_trail import tables as audit_tables
from flywheel.arbiter.evaluation.judges import tables as judges_tables
from flywheel.collection.receiver import tables as receiver_tables
from flywheel.database import metadata
from flywheel.pool import tables as pool_tables
from flywheel.pool.access import tables as access_tables

SCHEMA_LOCK = 0x666C79  # "fly"

for tables in (access_tables, arbiter_tables, audit_tables, judges_tables, pool_tables, receiver_tables):
    assert tables is not None

engine = create_engine(context.config.attributes["url"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SCHEMA_LOCK})
        context.run_migrations()
engine.dispose()
