"""PostgreSQL is away: records of known keys are taken, and what the receiver counts can be read."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flywheel.api.callers import api_token
from flywheel.database import upgrade, url_with
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings
from tests.api.receiver.conftest import running
from tests.api.receiver.test_logs import feedback


@pytest.fixture
def server() -> Iterator[tuple[str, ExitStack]]:
    """The URL of a server of the test's own, and what stops it when it is closed."""
    with (
        tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder,
        ExitStack() as running_server,
    ):
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user where this one is root
        found = EmbeddedPostgres(Path(folder) / "postgres")
        url = url_with(found.start(), driver="")
        running_server.callback(found.stop)
        upgrade(url)
        yield url, running_server


def families(text: str) -> dict[str, float]:
    """The first sample of each family."""
    found = text_string_to_metric_families(text)
    return {family.name: family.samples[0].value for family in found if family.samples}


def test_the_receivers_counters_are_served_without_postgresql(server: tuple[str, ExitStack], tmp_path: Path) -> None:
    url, running_server = server
    settings = Settings.load(profile="smoke", home=tmp_path / "home", database_url=url)
    token = {"Authorization": f"Bearer {api_token(settings).decode()}"}
    with running(settings) as client:
        assert client.post("/v1/logs/feedback", json=feedback("before")).status_code == 200
        whole = families(client.get("/metrics", headers=token).text)
        running_server.close()
        assert client.post("/v1/logs/feedback", json=feedback("meanwhile")).status_code == 200
        answer = client.get("/metrics", headers=token)
        assert answer.status_code == 200
        alone = families(answer.text)
        unknown = client.get("/metrics", headers={"Authorization": "Bearer fwt_0123456789abcdef_unknown"})
        assert unknown.status_code in {401, 503}
        assert "flywheel_received" not in unknown.text
    assert (whole["flywheel_pool_metrics_up"], whole["flywheel_received_items"]) == (1, 1)
    assert (alone["flywheel_pool_metrics_up"], alone["flywheel_received_items"]) == (0, 2)
    assert "flywheel_pool_points" in whole
    assert "flywheel_pool_points" not in alone
