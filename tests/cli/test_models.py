import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.database import connect
from flywheel.rollout.promotion import promote
from tests.cli.conftest import Invoke

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


@pytest.mark.parametrize("command", [("list",), ("approve",), ("approve", "3")])
def test_without_a_registry_the_error_says_how_to_start_one(
    flywheel: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    result = flywheel("models", *command)
    assert result.exit_code == 1
    assert result.stderr == f"flywheel: no services are running for {home}; start them with `flywheel up`\n"


def test_the_history_says_who_served_since_when_and_why(flywheel: Invoke, database_url: str) -> None:
    promote(connect(database_url), version="2", tags={}, now=NOW, actor="ann", reason="12 % better")
    [change] = json.loads(flywheel("models", "history", "--json").output)
    assert (change["version"], change["actor"], change["reason"]) == ("2", "ann", "12 % better")
    assert "2026-01-05 10:00:00" in flywheel("models", "history").output


def test_a_version_is_a_number(flywheel: Invoke) -> None:
    assert flywheel("models", "approve", "newest").exit_code == 2
