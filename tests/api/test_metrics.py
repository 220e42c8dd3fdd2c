"""Metrics over HTTP, as Prometheus scrapes them."""

import threading

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

from flywheel.api import metrics
from flywheel.pool.access.audit import list_audit
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from tests.api.conftest import Granted


def test_prometheus_scrapes_what_the_ledger_says(client: TestClient, placed: BenchmarkPool, granted: Granted) -> None:
    grant, headers = granted("analyst")
    response = client.get("/metrics", headers=headers)
    assert response.headers["content-type"] == CONTENT_TYPE_LATEST
    found = {family.name: family for family in text_string_to_metric_families(response.text)}
    lines = {sample.labels["outcome"]: sample.value for sample in found["flywheel_pool_lines"].samples}
    assert sum(lines.values()) == pool_counts(placed)["lines"]
    (readable,) = found["flywheel_pool_lake_readable"].samples
    assert readable.value == 1
    (entry,) = list_audit(placed, principal=grant.principal)
    assert (entry.action, entry.asked) == ("metrics.read", {"path": "/metrics"})


def test_a_reading_that_hangs_leaves_the_receivers_metrics_in_time(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session holds a table that the metrics need."""
    monkeypatch.setattr(metrics, "LONGEST_S", 0.5)
    pool: BenchmarkPool = client.app.state.pool  # type: ignore[attr-defined]
    before = threading.active_count()
    with pool.transaction() as connection:
        connection.execute("LOCK TABLE segments IN ACCESS EXCLUSIVE MODE")
        for _ in range(2):  # the second one meets the first, which hangs
            answer = client.get("/metrics")
            assert answer.status_code == 200
            assert "flywheel_pool_metrics_up 0.0" in answer.text
            assert "flywheel_pool_points" not in answer.text
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        assert connection.execute(waiting).fetchone() == (1,), "the second one waits for the first, not for the table"
    with metrics.one_at_a_time:  # the first one ends once the table is free
        pass
    assert threading.active_count() < before + 10
    assert "flywheel_pool_points" in client.get("/metrics").text
