"""The ledger of privacy budgets: what is spent together is covered together, and nothing is taken back."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection, Rollback
from psycopg.errors import CheckViolation, InsufficientPrivilege

from flywheel.errors import PoolError
from flywheel.pool.anonymization.noise import Noise, gaussian_noise, laplace_noise
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import (
    Budget,
    forget_spending,
    list_budgets,
    period_of,
    spend,
    spent_tenants,
)
from flywheel.pool.settings import AnonymizationSettings, PrivacySettings

LIMITS = PrivacySettings(epsilon=1.0, delta=1e-5, period_days=100)
SINCE, UNTIL = datetime(2026, 2, 16, tzinfo=UTC), datetime(2026, 5, 27, tzinfo=UTC)
NOW = SINCE + timedelta(days=30)
ACME, GLOBEX = "a" * 64, "b" * 64


@pytest.fixture
def pool(pool: BenchmarkPool) -> BenchmarkPool:
    return BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"privacy": LIMITS}))


def stored(connection: Connection[Any], batch_id: str) -> None:
    connection.execute(
        "INSERT INTO batches (id, digest, created_at, first_at, last_at, criteria, distribution, quality)"
        " VALUES (%s, 'd', %s, %s, %s, '{}', '{}', '{}')",
        (batch_id, NOW, NOW, NOW),
    )


def spent(
    pool: BenchmarkPool,
    batch_id: str,
    noise: Noise | float,
    *,
    tenants: tuple[str, ...] = (ACME,),
    now: datetime = NOW,
) -> None:
    drawn = noise if isinstance(noise, Noise) else laplace_noise(epsilon=noise)
    with pool.transaction() as connection:
        stored(connection, batch_id)
        spend(connection, pool.settings.privacy, drawn, batch_id=batch_id, tenants=tenants, now=now)


def budget(pool: BenchmarkPool, tenant: str = ACME, *, now: datetime = NOW) -> Budget:
    """The present period's."""
    return list_budgets(pool, now=now, hashes=[tenant])[0]


def test_a_tenant_that_never_spent_has_all_of_it(pool: BenchmarkPool) -> None:
    assert list_budgets(pool, now=NOW) == ()
    held = budget(pool)
    assert (held.since, held.until) == (SINCE, UNTIL)
    assert (held.epsilon_left, held.delta_left, held.exports, held.epsilon_ever) == (1.0, 1e-5, 0, 0.0)


def test_each_tenant_of_an_export_spends_its_epsilon_and_delta(pool: BenchmarkPool) -> None:
    spent(pool, "e1", gaussian_noise(epsilon=0.25, delta=4e-6), tenants=(ACME, GLOBEX))
    spent(pool, "e2", 0.5)
    acme, globex = list_budgets(pool, now=NOW)
    assert (acme.epsilon_spent, acme.epsilon_left, acme.exports) == (0.75, 0.25, 2)
    assert (globex.epsilon_spent, globex.epsilon_left, globex.exports) == (0.25, 0.75, 1)
    assert (acme.delta_spent, acme.delta_left) == (globex.delta_spent, globex.delta_left) == (4e-6, 6e-6)


def test_ten_tenths_are_one_and_no_more(pool: BenchmarkPool) -> None:
    for number in range(10):
        spent(pool, f"e{number}", 0.1)
    assert budget(pool).epsilon_left == 0
    with pytest.raises(PoolError, match="have less"):
        spent(pool, "e10", 1e-9)


def test_what_a_budget_does_not_cover_is_refused_in_numbers_and_spends_nothing(pool: BenchmarkPool) -> None:
    spent(pool, "e1", 0.75)
    with pytest.raises(PoolError) as refused:
        spent(pool, "e2", 0.5, tenants=(ACME, GLOBEX))
    assert str(refused.value) == (
        "export e2 was not made: its noise spends ε 0.5 and δ 0 of each tenant's privacy budget, and of 2 tenants 1 "
        "have less: aaaaaaaaaaaa… has ε 0.25 of 1 and δ 1e-05 of 1e-05 left. The period ends on 2026-05-27 00:00 UTC; "
        "until then ask for a smaller ε, which is more noise"
    )
    assert budget(pool, GLOBEX).exports == 0
    with pytest.raises(PoolError, match=r"spends ε 0.1 and δ 2e-05"):
        spent(pool, "e3", gaussian_noise(epsilon=0.1, delta=2e-5), tenants=(GLOBEX,))
    spent(pool, "e2", 0.25)


def test_a_long_refusal_names_a_few_tenants_and_counts_the_rest(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match=r"of 5 tenants 5 have less: 0+… has .*, 2+… has .*, and 2 more"):
        spent(pool, "e1", 2.0, tenants=tuple(str(number) * 64 for number in range(5)))


def test_the_next_period_begins_with_a_full_budget_and_remembers_the_former(pool: BenchmarkPool) -> None:
    spent(pool, "e1", 1.0, now=UNTIL - timedelta(microseconds=1))
    with pytest.raises(PoolError, match="have less"):
        spent(pool, "e2", 0.5, now=UNTIL - timedelta(microseconds=1))
    spent(pool, "e2", 0.5, now=UNTIL)
    latest, former = list_budgets(pool, now=UNTIL)
    assert (latest.since, latest.epsilon_spent, latest.epsilon_left) == (UNTIL, 0.5, 0.5)
    assert (former.since, former.epsilon_spent, former.epsilon_left) == (SINCE, 1.0, 0.0)
    assert latest.epsilon_ever == former.epsilon_ever == 1.5


@given(
    moment=st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)), days=st.integers(1, 4_000)
)
def test_every_moment_is_in_one_period_and_periods_follow_one_another(moment: datetime, days: int) -> None:
    since, until = period_of(moment, period_days=days)
    assert since <= moment < until == since + timedelta(days=days)
    assert period_of(until, period_days=days)[0] == until
    assert period_of(until - timedelta(microseconds=1), period_days=days)[0] == since


def test_what_is_undone_was_not_spent(pool: BenchmarkPool) -> None:
    with pool.transaction() as connection:
        stored(connection, "e1")
        spend(connection, LIMITS, laplace_noise(epsilon=1.0), batch_id="e1", tenants=[ACME], now=NOW)
        raise Rollback
    assert budget(pool).epsilon_left == 1.0


def test_who_spends_beside_another_waits_and_then_sees_what_it_spent(pool: BenchmarkPool) -> None:
    """Two connections; the second asks while the first has spent and not committed."""
    with ThreadPoolExecutor(1) as thread:
        with pool.transaction() as first:
            stored(first, "e1")
            spend(first, LIMITS, laplace_noise(epsilon=0.6), batch_id="e1", tenants=[ACME], now=NOW)
            second = thread.submit(spent, pool, "e2", 0.6)
            wait_for_a_lock(pool)
        with pytest.raises(PoolError, match=r"has ε 0\.4 of 1"):
            second.result()
    assert budget(pool).epsilon_spent == 0.6


def wait_for_a_lock(pool: BenchmarkPool) -> None:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'privacy_spending'::regclass"
    with psycopg.connect(pool.settings.database_url, autocommit=True) as watcher:
        for _ in range(600):
            if watcher.execute(waiting).fetchone() == (1,):
                return
            threading.Event().wait(0.05)
    raise TimeoutError("nobody waits for the ledger")


def test_many_at_once_do_not_overspend(pool: BenchmarkPool) -> None:
    def attempt(number: int) -> bool:
        try:
            spent(pool, f"e{number}", 0.3)
        except PoolError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(attempt, range(8))) == 3
    assert budget(pool).epsilon_spent == 0.9


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE privacy_spending SET epsilon = 0.1",
        "DELETE FROM privacy_spending",
        "TRUNCATE privacy_spending",
        "SET LOCAL flywheel.erased_tenant = 'somebody else'; DELETE FROM privacy_spending",
    ],
)
def test_the_ledger_only_grows(pool: BenchmarkPool, statement: str) -> None:
    spent(pool, "e1", 0.5)
    with pytest.raises(InsufficientPrivilege, match="only grows"), pool.transaction() as connection:
        connection.execute(statement)
    assert budget(pool).epsilon_spent == 0.5


@pytest.mark.parametrize("epsilon", ["0", "-1", "NaN", "Infinity"])
def test_the_ledger_takes_no_spending_out_of_bounds(pool: BenchmarkPool, epsilon: str) -> None:
    entry = (
        "INSERT INTO privacy_spending (tenant_hash, batch_id, spent_at, mechanism, epsilon)"
        " VALUES ('t', 'e1', %s, 'laplace', %s::numeric)"
    )
    with pool.transaction() as connection:
        stored(connection, "e1")
        with pytest.raises(CheckViolation), connection.transaction():
            connection.execute(entry, (NOW, epsilon))


def test_only_an_erased_tenant_is_forgotten(pool: BenchmarkPool) -> None:
    spent(pool, "e1", 0.5, tenants=(ACME, GLOBEX))
    with pool.transaction() as connection:
        assert forget_spending(connection, [ACME]) == 1
        with pytest.raises(InsufficientPrivilege), connection.transaction():
            connection.execute("DELETE FROM privacy_spending WHERE tenant_hash = %s", (GLOBEX,))
    assert [held.tenant_hash for held in list_budgets(pool, now=NOW)] == [GLOBEX]


def test_tenants_are_spent_when_one_more_export_of_the_policy_is_not_covered(pool: BenchmarkPool) -> None:
    policies = AnonymizationPolicies(default=AnonymizationPolicy(noise_magnitude=2.0))
    settings = pool.settings.model_copy(update={"anonymization": AnonymizationSettings(policies=policies)})

    def counted(now: datetime = NOW) -> int:
        with pool.transaction() as connection:
            return spent_tenants(connection, settings, now=now)

    spent(pool, "e1", 0.5, tenants=(ACME, GLOBEX))
    assert counted() == 0
    spent(pool, "e2", 0.1)
    assert (counted(), counted(UNTIL)) == (1, 0)
