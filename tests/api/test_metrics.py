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
from tests.api.test_pool import refusal


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


def test_a_reading_that_hangs_is_a_problem_in_time(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session holds a table that the metrics need."""
    monkeypatch.setattr(metrics, "LONGEST_S", 0.5)
    pool: BenchmarkPool = client.app.state.pool  # type: ignore[attr-defined]
    with pool.transaction() as connection:
        connection.execute("LOCK TABLE segments IN ACCESS EXCLUSIVE MODE")
        assert "took longer than 0 seconds" in refusal(client.get("/metrics"), 503)["detail"]
        second = refusal(client.get("/metrics"), 503)["detail"]
        assert "took longer" in second or "still hangs" in second
    with metrics.one_at_a_time:  # the first one ends once the table is free
        pass
    assert threading.active_count() < 60
    assert client.get("/metrics").status_code == 200
