"""``flywheel privacy budget``."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.pool.access.audit import list_audit
from flywheel.pool.anonymization.tenants import salts_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.salt_rotation import begin
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.cli.test_export import ASK
from tests.pool.filling import fill, some_tasks


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return Settings.load(profile="smoke", home=home, database_url=database_url)


@pytest.fixture
def filled(settings: Settings) -> None:
    with BenchmarkPool.open(settings) as pool:
        fill(pool, "a", some_tasks(16))


def test_before_any_noise_nothing_is_spent(flywheel: Invoke) -> None:
    assert flywheel("privacy", "budget").output == "no export has spent anything of a privacy budget\n"
    (held,) = json.loads(flywheel("privacy", "budget", "--tenant", "acme", "--json").output)
    assert (held["epsilon_left"], held["delta_left"], held["exports"]) == (8.0, 1e-6, 0)


def test_what_an_export_with_noise_spent_is_listed(flywheel: Invoke, filled: None, settings: Settings) -> None:
    dry = flywheel("pool", "export", *ASK, "--noise-epsilon", "1.5", "--dry-run")
    assert "laplace of scale 0.667 on rewards; ε 1.5 and δ 0 of each tenant's privacy budget" in dry.output
    assert "the export can be made" in dry.output
    made = flywheel("pool", "export", *ASK, "--noise-epsilon", "1.5", "--noise-delta", "1e-7", "--id", "e1")
    assert "gaussian of scale" in made.output
    (held,) = json.loads(flywheel("privacy", "budget", "--json").output)
    assert (held["epsilon_spent"], held["epsilon_left"], held["delta_spent"]) == (1.5, 6.5, 1e-7)
    assert json.loads(flywheel("privacy", "budget", "--tenant", "acme", "--json").output) == [held]
    header, row = flywheel("privacy", "budget").output.splitlines()
    assert "ε left" in header
    assert row.split()[0] == held["tenant_hash"]
    assert row.split()[3:6] == ["1", "1.5", "6.5"]
    with BenchmarkPool.open(settings) as pool:
        assert "privacy.budget" in {entry.action for entry in list_audit(pool)}


def test_what_was_spent_is_listed_also_while_a_rotation_has_only_begun(
    flywheel: Invoke, filled: None, settings: Settings
) -> None:
    """Killed where the new salt is made and nothing is rewritten."""
    flywheel("pool", "export", *ASK, "--noise-epsilon", "1.5", "--id", "e1")
    with BenchmarkPool.open(settings) as pool:
        begin(pool, now=datetime.now(UTC), by="bob")
    present, former = salts_of(settings).hashes("acme")
    (held,) = json.loads(flywheel("privacy", "budget", "--tenant", "acme", "--json").output)
    assert (held["tenant_hash"], held["epsilon_spent"], held["exports"]) == (present, 1.5, 1)
    (unpaired,) = json.loads(flywheel("privacy", "budget", "--json").output)
    assert unpaired["tenant_hash"] == former


def test_a_budget_that_does_not_cover_an_export_is_an_error(flywheel: Invoke, filled: None) -> None:
    refused = flywheel("pool", "export", *ASK, "--noise-epsilon", "9", "--id", "e1")
    assert refused.exit_code == 1
    assert "has ε 8 of 8" in refused.stderr
    assert flywheel("pool", "export", *ASK, "--noise-epsilon", "0").exit_code == 2
    assert flywheel("pool", "export", *ASK, "--noise-delta", "0.1").exit_code == 1
