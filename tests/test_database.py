"""Connections: what is said when PostgreSQL is not there, and in which time zone it answers."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from flywheel.database import connect
from flywheel.errors import DatabaseError
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings


def test_a_server_that_is_not_there_is_said_in_a_sentence() -> None:
    engine = connect("postgresql://nobody@127.0.0.1:9/flywheel")
    with pytest.raises(DatabaseError, match=r"PostgreSQL cannot be used: .*127\.0\.0\.1.*nothing is lost"):
        engine.connect()


def test_the_pools_transactions_say_so_too(tmp_path: Path) -> None:
    nowhere = Settings.load(profile="smoke", home=tmp_path, database_url="postgresql://nobody@127.0.0.1:9/flywheel")
    with (
        BenchmarkPool.open(nowhere) as pool,
        pytest.raises(DatabaseError, match="PostgreSQL cannot be used"),
        pool.transaction(),
    ):
        pass


def test_a_server_that_goes_while_a_transaction_writes_is_said_too(database_url: str, tmp_path: Path) -> None:
    here = Settings.load(profile="smoke", home=tmp_path, database_url=database_url)
    with (
        BenchmarkPool.open(here) as pool,
        pytest.raises(DatabaseError, match=r"terminating connection.*its disk has room"),
        pool.transaction() as connection,
    ):
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def test_a_server_that_is_shut_down_in_the_middle_is_too(database_url: str) -> None:
    watched = connect(database_url)
    with watched.connect() as connection, pytest.raises(DatabaseError, match="terminating connection"):
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


def test_moments_are_read_in_utc_whatever_the_servers_zone_is(database_url: str) -> None:
    with connect(database_url).begin() as connection:
        database = connection.scalar(text("SELECT current_database()"))
        connection.execute(text(f"ALTER DATABASE \"{database}\" SET timezone TO 'Asia/Tokyo'"))
    with connect(database_url).connect() as connection:
        moment = connection.scalar(text("SELECT timestamptz '2026-03-03 21:00:00+09'"))
        assert (moment.hour, moment.utcoffset()) == (12, timedelta(0))


def test_a_wrong_query_is_no_outage(database_url: str) -> None:
    watched = connect(database_url)
    with watched.connect() as connection, pytest.raises(ProgrammingError):
        connection.execute(text("SELECT * FROM there_is_no_such_table"))
