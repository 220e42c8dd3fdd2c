"""The service's own functions under the rights of a principal."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flywheel.errors import AccessError
from flywheel.pool.access.decisions import Role
from flywheel.pool.access.logins import make_login
from flywheel.pool.access.principals import as_principal
from flywheel.pool.batches import list_batches
from flywheel.pool.overview import list_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from tests.pool.access.conftest import POINTS, TENANTS, Granted, ids
from tests.pool.logs import NOON

Find = Callable[[BenchmarkPool], object]


@pytest.mark.parametrize(
    ("role", "find"),
    [
        ("rl-trainer", list_batches),
        ("analyst", list_days),
        ("analyst", lambda pool: pool.get_agent_statistics("a").tasks),
        ("analyst", lambda pool: pool.get_system_statistics("complexity").groups),
        ("arbiter", lambda pool: pool.get_agent_statistics("a").tasks),
        ("reviewer", list_quarantine),
    ],
)
def test_functions_of_the_service_are_bound_as_well(
    role: Role, find: Find, filled: BenchmarkPool, granted: Granted
) -> None:
    now = datetime.now(UTC)

    def found(**terms: Any) -> object:
        grant = granted(role, fields="all", **terms)
        make_login(filled, grant.principal, by="asker", now=now)
        return find(as_principal(filled, grant))

    whole = find(filled)
    assert whole
    assert found() == whole
    assert not found(until=NOON - timedelta(days=1))
    other: Role = "admin"
    stranger = granted(other)
    make_login(filled, stranger.principal, by="asker", now=now)
    with pytest.raises(AccessError, match=f"PostgreSQL refuses this to {stranger.principal} under grant"):
        find(as_principal(filled, stranger))


def test_a_statement_prepared_by_the_service_is_bound_too(filled: BenchmarkPool, granted: Granted) -> None:
    """The plan is kept by the connection, which the next principal gets."""
    grants = {tenant: granted("analyst", tenants=[tenant]) for tenant in TENANTS}
    for grant in grants.values():
        make_login(filled, grant.principal, by="asker", now=datetime.now(UTC))
    query = "SELECT DISTINCT agent_id FROM hot_points ORDER BY agent_id"
    for _ in range(2):
        bound = [((tenant,), as_principal(filled, grants[tenant])) for tenant in TENANTS]
        views: list[tuple[tuple[str, ...], BenchmarkPool]] = [(TENANTS, filled), *bound]
        for expected, view in views:
            with view.transaction() as connection:
                rows = [name for (name,) in connection.execute(query, prepare=True)]
            assert rows == [f"agent-of-{tenant}" for tenant in expected]


def test_a_principal_of_two_grants_acts_under_the_one_it_came_with(filled: BenchmarkPool, granted: Granted) -> None:
    acme = granted("analyst", tenants=["acme"])
    granted("analyst", tenants=["globex"], principal=acme.principal)
    make_login(filled, acme.principal, by="asker", now=datetime.now(UTC))
    with as_principal(filled, acme) as bound, bound.transaction() as connection:
        assert ids(connection) == {f"acme-{hour}" for hour in range(POINTS)}
    with filled.transaction() as connection:
        assert len(ids(connection)) == 2 * POINTS
