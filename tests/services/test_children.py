from datetime import UTC, datetime
from pathlib import Path

from flywheel.services.children import environment
from flywheel.settings import Settings


def told(**base: str) -> dict[str, str]:
    settings = Settings.load(profile="smoke")
    started_at = datetime(2026, 11, 22, tzinfo=UTC)
    return environment(settings, database_url="postgresql:///flywheel", root=Path(), started_at=started_at, base=base)


def test_threads_of_models_sleep_soon_where_they_wait_for_each_other() -> None:
    assert told()["OMP_WAIT_POLICY"] == "passive"
    assert int(told()["GOMP_SPINCOUNT"]) > 0


def test_what_a_person_said_of_threads_stays() -> None:
    assert told(OMP_WAIT_POLICY="active")["OMP_WAIT_POLICY"] == "active"
