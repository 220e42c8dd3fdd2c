"""What tests of assets share: the environment that assets find a pool by, and a Dagster of their own."""

from collections.abc import Iterator

import dagster as dg
import pytest

from flywheel.settings import Settings


@pytest.fixture
def asset_settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of an empty installation that assets find as well. No tracking server answers."""
    monkeypatch.setenv("FLYWHEEL_HOME", str(settings.home))
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("FLYWHEEL_PROFILE", settings.profile)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    return settings


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster of this test."""
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral
