import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.cli.erase import show
from flywheel.pool.erasure import ErasureReport
from flywheel.pool.pool import BenchmarkPool
from flywheel.rollout.promotion import promote
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.erasure.two_tenants import CRITERIA, ERASED, SECRET, fill, places

TAGS = {"flywheel.training_batch": "b1", "flywheel.stage": "grpo"}


class Registry(BaseHTTPRequestHandler):
    """Answers what MLflow would: two versions of our model, of which the second was trained on another batch."""

    def do_GET(self) -> None:
        tags = [{"key": key, "value": value} for key, value in TAGS.items()]
        versions = [
            {"name": "flywheel-agent", "version": "1", "tags": tags},
            {"name": "flywheel-agent", "version": "2", "tags": [{**tags[0], "value": "b0"}]},
        ]
        search = self.path.startswith("/api/2.0/mlflow/model-versions/search")
        model = {"registered_model": {"aliases": [{"alias": "champion", "version": "1"}]}}
        body = json.dumps({"model_versions": versions} if search else model).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def model_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def filled(home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    """A pool with a batch, and a champion that was trained on it."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings.model_copy(update={"batch": CRITERIA})) as pool:
        fill(pool)
        AgentRegistry(pool.engine).register(AgentProfile(id="agent-a", kind="reference"))
        promote(pool.engine, version="1", tags=TAGS, now=datetime.now(UTC), actor="somebody", reason="better")
        yield pool


@pytest.mark.usefixtures("model_registry")
def test_a_tenant_is_erased_and_the_models_it_touched_are_named(flywheel: Invoke, filled: BenchmarkPool) -> None:
    announced = json.loads(flywheel("pool", "erase", "--tenant", ERASED, "--dry-run", "--json").output)
    assert (announced["removed"]["data_points"], announced["finished_at"]) == (12, None)
    assert places(filled)
    report = json.loads(flywheel("pool", "erase", "--tenant", ERASED, "--yes", "--json").output)
    assert report["removed"] == announced["removed"]
    assert report["batches"] == ["b1"]
    [model] = report["models"]
    assert (model["version"], model["batch"], model["aliases"], model["serves"]) == ("1", "b1", ["champion"], True)
    assert places(filled) == set()
    again = flywheel("pool", "erase", "--tenant", ERASED, "--yes").output
    assert "and nothing came since" in again
    assert "flywheel-agent" in again


@pytest.mark.usefixtures("model_registry")
def test_a_tenant_that_nothing_is_known_of_is_asked_about(flywheel: Invoke, filled: BenchmarkPool) -> None:
    result = flywheel("pool", "erase", "--tenant", f"{ERASED}-mistyped", "--yes")
    assert "nothing of it was found: is this the name that its logs have" in result.stderr
    assert result.exit_code == 0


def test_a_tenant_of_which_only_open_segments_hold_lines_is_not_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    report = ErasureReport(removed={"lines": 0}, days=(), batches=(), models=(), open_segments=1, open_lines=2)
    show(report, as_json=False)
    said = capsys.readouterr()
    assert (said.err, "1 segments are still written, with 2 lines of it" in said.out) == ("", True)


def test_single_tasks_of_a_tenant_are_erased(
    flywheel: Invoke, filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("pool", "erase", "--tenant", ERASED, "--task", f"{SECRET}-02-0", "--task", f"{SECRET}-03-1")
    announced = json.loads(flywheel(*asked, "--dry-run", "--json").output)
    assert (announced["tasks"], announced["removed"]["data_points"]) == (2, 2)
    monkeypatch.setattr(sys.modules["flywheel.cli.erase"], "is_terminal", lambda: True)
    declined = flywheel(*asked, stdin="n\n")
    assert (declined.exit_code, f"of 2 task(s) of tenant {ERASED}" in declined.output) == (1, True)
    report = json.loads(flywheel(*asked, "--yes", "--json").output)
    assert (report["removed"], report["ids"]) == (announced["removed"], [])
    left = json.loads(flywheel("pool", "erase", "--tenant", ERASED, "--dry-run", "--json").output)
    assert left["removed"]["data_points"] == 10


def test_without_a_registry_the_report_says_what_to_look_for(
    flywheel: Invoke, filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    output = flywheel("pool", "erase", "--tenant", ERASED, "--yes").output
    assert "models trained on them are not known: no services are running" in output
    assert "whose tag flywheel.training_batch is one of: b1" in output
    assert "models:/flywheel-agent/1 (flywheel-agent, trained on b1)" in output
    assert places(filled) == set()


def test_it_asks_at_a_terminal_and_refuses_without_one(
    flywheel: Invoke, filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = flywheel("pool", "erase", "--tenant", ERASED)
    assert (refused.exit_code, "add --yes" in refused.output) == (2, True)
    monkeypatch.setattr(sys.modules["flywheel.cli.erase"], "is_terminal", lambda: True)
    declined = flywheel("pool", "erase", "--tenant", ERASED, stdin="n\n")
    assert declined.exit_code == 1
    assert places(filled)
    agreed = flywheel("pool", "erase", "--tenant", ERASED, stdin="y\n")
    assert (agreed.exit_code, f"Remove all of this of tenant {ERASED}" in agreed.output) == (0, True)
    assert places(filled) == set()


def test_retention_says_what_it_removed_and_how_many_files_became_how_many(
    flywheel: Invoke, filled: BenchmarkPool
) -> None:
    announced = json.loads(flywheel("pool", "retention", "--dry-run", "--json").output)
    report = json.loads(flywheel("pool", "retention", "--json").output)
    assert report["removed"] == announced["removed"]
    assert {table["table"] for table in report["compacted"]} >= {"data_points", "training_batches"}
    assert flywheel("pool", "retention").output == "nothing is older than its tier\n"
