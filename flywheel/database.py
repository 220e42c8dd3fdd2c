"""PostgreSQL: one place for URLs, engines and the schema's version.

Tables are declared beside the code that owns them, in its ``tables.py``, on the one ``metadata`` here; their history is
in ``flywheel/migrations``, whose ``env.py`` names them all.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import DateTime, Engine, ExceptionContext, MetaData, create_engine, event, make_url

from flywheel.errors import DatabaseError

if TYPE_CHECKING:
    from alembic.config import Config

OUTAGES = ("08", "53", "57P")
"""Classes of SQLSTATE: no connection, no room, shut down or crashed. Deadlocks and cancelled queries are none."""
MIGRATIONS = Path(__file__).parent / "migrations"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Instant = DateTime(timezone=True)
"""The type of every column that is a moment."""


def url_with(url: str, *, driver: str, database: str | None = None) -> str:
    """The same server's URL for another driver (``psycopg``, ``psycopg2``, or ``""`` for none) or database."""
    parsed = make_url(url)
    drivername = f"postgresql+{driver}" if driver else "postgresql"
    return parsed.set(drivername=drivername, database=database or parsed.database).render_as_string(hide_password=False)


def connect(url: str) -> Engine:
    """An engine over psycopg 3 that checks connections before use, so that a restarted server is no error.

    Moments are read in UTC, whatever the server's own time zone is.
    A server that cannot be reached, is shut down or has no room is a ``DatabaseError``; SQLAlchemy's other errors pass.
    """
    engine = create_engine(url_with(url, driver="psycopg"), pool_pre_ping=True)
    event.listen(engine, "handle_error", _say_outage)
    event.listen(engine, "connect", _read_in_utc)
    return engine


def _read_in_utc(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.execute("SET TIME ZONE 'UTC'")
    connection.commit()


def _say_outage(context: ExceptionContext) -> None:
    if not context.is_pre_ping:
        raise_outage(context.original_exception)


def raise_outage(error: BaseException) -> None:
    """Say it where this error of psycopg means that the server is down or has no room; else do nothing.

    Raises:
        DatabaseError: it does.
    """
    if not isinstance(error, psycopg.OperationalError):
        return
    if error.sqlstate is None or error.sqlstate.startswith(OUTAGES):
        reason = str(error).strip().splitlines()[0]
        raise DatabaseError(
            f"PostgreSQL cannot be used: {reason}. See that it runs, that its disk has room and that "
            f"FLYWHEEL_DATABASE_URL is right, then run this again; nothing is lost"
        ) from error


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the schema to a revision. Safe to run twice, and by several processes at once (advisory lock)."""
    from alembic import command

    command.upgrade(alembic_config(url), revision)


def downgrade(url: str, revision: str) -> None:
    """Bring the schema back to a revision; ``base`` empties it."""
    from alembic import command

    command.downgrade(alembic_config(url), revision)


def alembic_config(url: str) -> "Config":
    """Alembic's configuration without a file of its own."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url_with(url, driver="psycopg")
    return config
