"""Exports while the tenant salt is rotated: what they spend is each tenant's, whichever of its hashes they met."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg.errors import InsufficientPrivilege
from pydantic import SecretStr

from flywheel.errors import PoolError
from flywheel.pool import batch_copies, exports
from flywheel.pool.anonymization.noise import laplace_noise
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.anonymization.tenants import salt_file, salt_of, salts_of
from flywheel.pool.batches import list_batches
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.exports import make_export
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import list_budgets, spend
from flywheel.pool.salt_rotation import rotate_salt
from flywheel.pool.settings import AnonymizationSettings
from tests.pool.erasure.two_tenants import CRITERIA, ERASED, LATER, OTHER, fill


@pytest.fixture
def filled(pool: BenchmarkPool) -> BenchmarkPool:
    opened = BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"batch": CRITERIA}))
    fill(opened)
    return opened


def test_a_privacy_budget_goes_with_its_tenant(filled: BenchmarkPool) -> None:
    (batch_id,) = [batch.id for batch in list_batches(filled)][:1]
    former = salts_of(filled.settings).hashes(ERASED)[0]
    with filled.transaction() as connection:
        spend(
            connection,
            filled.settings.privacy,
            laplace_noise(epsilon=2.0),
            batch_id=batch_id,
            tenants=[former],
            now=LATER,
        )
    rotate_salt(filled, now=LATER, by="bob")
    present, *others = salts_of(filled.settings).hashes(ERASED)
    assert others == [former]
    (budget,) = list_budgets(filled, now=LATER)
    assert (budget.tenant_hash, budget.epsilon_spent) == (present, 2.0)
    with filled.transaction() as connection, pytest.raises(InsufficientPrivilege):
        connection.execute("UPDATE privacy_spending SET tenant_hash = %s", (former,))


def test_a_rotation_does_not_begin_while_an_export_is_made(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It spends under the hashes that its points had when it chose them; the rotation then brings them along."""
    former, real = salt_of(filled.settings), batch_copies.copy_points
    chosen, go_on = threading.Event(), threading.Event()

    def paused(*arguments: Any) -> None:
        chosen.set()
        assert go_on.wait(60)
        real(*arguments)

    monkeypatch.setattr(exports, "copy_points", paused)
    criteria = criteria_for(filled.settings, "curriculum", min_points=1, min_task_types=1, noise_epsilon=1.0)
    with ThreadPoolExecutor(2) as threads:
        exporting = threads.submit(make_export, filled, criteria, export_id="e1", now=LATER)
        assert chosen.wait(60)
        rotating = threads.submit(rotate_salt, filled, now=LATER, by="bob")
        with pytest.raises(TimeoutError):
            rotating.result(timeout=1)
        assert salt_of(filled.settings) == former
        go_on.set()
        exporting.result()
        rotating.result()
    present = {salts_of(filled.settings).hashes(name)[0] for name in (ERASED, OTHER)}
    assert {held.tenant_hash for held in list_budgets(filled, now=LATER)} == present


def test_an_export_that_could_not_tell_whose_points_get_noise_is_not_made(filled: BenchmarkPool) -> None:
    policies = AnonymizationPolicies(tenants={OTHER: AnonymizationPolicy(add_noise_to_rewards=True)})
    own = {"tenant_salt": SecretStr("own" * 12), "anonymization": AnonymizationSettings(policies=policies)}
    asking = BenchmarkPool(filled.engine, filled.lake, filled.settings.model_copy(update=own))
    criteria = criteria_for(asking.settings, "curriculum", min_points=1, min_task_types=1)
    salt_file(filled.settings).rename(filled.settings.home / "elsewhere")
    with pytest.raises(PoolError, match="which this process does not have: its own is"):
        make_export(asking, criteria, export_id="e1", now=LATER)
