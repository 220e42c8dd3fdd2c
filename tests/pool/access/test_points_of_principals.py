"""Points across tiers as a principal reads them: PostgreSQL holds the rows, the service knows where they are."""

from datetime import timedelta

import pytest
from psycopg.errors import DivisionByZero

from flywheel.pool.access.grants import request_grant
from flywheel.pool.access.principals import as_principal
from flywheel.pool.access.reading import read_as
from flywheel.pool.access.tokens import issue_token
from flywheel.pool.anonymization.day import find_violations
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import PointQuery
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS
from flywheel.pool.tiers import place_hot, place_warm
from tests.pool.access.conftest import NOW, TERMS, Granted, new_name
from tests.pool.queries.points import FIRST_DAY, fill, noon

NEXT_DAY = FIRST_DAY + timedelta(days=1)


def test_a_task_that_left_the_time_range_is_not_read_where_it_was(pool: BenchmarkPool) -> None:
    """Its new row is hot and out of the principal's sight; the old one is still in the lake."""
    fill(pool, [FIRST_DAY, NEXT_DAY], tasks=6)
    moving = next(read_rows(pool, ANONYMIZED, FIRST_DAY))
    kept = list(read_rows(pool, ANONYMIZED, NEXT_DAY))
    moved = {**moving, "day": NEXT_DAY, "timestamp": noon(NEXT_DAY)}
    pool.replace(ANONYMIZED, NEXT_DAY, [*kept, moved], schema=arrow_schema(POINT_COLUMNS))
    find_violations(pool, NEXT_DAY)
    place_warm(pool, FIRST_DAY, now=noon(NEXT_DAY))
    place_hot(pool, NEXT_DAY, now=noon(NEXT_DAY))
    with pool.transaction() as connection:
        connection.execute("UPDATE days SET revision = revision + 1 WHERE day = %s", (FIRST_DAY,))
    until = noon(NEXT_DAY)
    grant = request_grant(pool, principal=new_name(), role="analyst", until=until, **TERMS)
    issue_token(pool, grant.id, by="bob", now=NOW)

    def ids(bound: BenchmarkPool, where: PointFilter) -> list[str]:
        found: list[str] = bound.get_points(PointQuery(where=where, columns=("id",))).table()["id"].to_pylist()
        return found

    found = read_as(pool, grant, "points.read", ids, now=NOW)
    assert sorted(found) == sorted(ids(pool, PointFilter(until=until)))
    assert len(found) > 5
    assert moving["id"] not in found


def test_the_services_rights_end_with_their_statements_also_where_one_fails(
    filled: BenchmarkPool, granted: Granted
) -> None:
    grant = granted("analyst", tenants=["acme"])
    issue_token(filled, grant.id, by="bob", now=NOW)
    bound = as_principal(filled, grant)
    with bound.transaction() as connection:
        with bound.as_service(connection):
            assert connection.execute("SELECT count(*) FROM days").fetchone() == (1,)
        with pytest.raises(DivisionByZero), bound.as_service(connection):
            connection.execute("SELECT 1 / 0")
        assert connection.execute("SELECT current_user, count(*) FROM days").fetchone() == (grant.principal, 0)
        assert connection.execute("SELECT count(*) FROM hot_points").fetchone() == (3,)
