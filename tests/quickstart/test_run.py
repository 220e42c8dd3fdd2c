from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from flywheel.errors import AlreadyRunningError
from flywheel.quickstart import run
from flywheel.quickstart.results import report_link
from flywheel.quickstart.run import loop_lock, run_quickstart
from flywheel.services.endpoints import Endpoints
from flywheel.settings import Settings


def test_a_second_quick_start_on_a_home_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with (
        loop_lock(tmp_path),
        pytest.raises(
            AlreadyRunningError, match=r"another quick start goes through the loop of .*\(process \d+, since"
        ),
        loop_lock(tmp_path),
    ):
        pass


def test_a_quick_start_is_refused_before_it_looks_for_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "services_of", lambda *_: pytest.fail("looked for services"))
    settings = Settings(home=tmp_path, profile="smoke")
    with loop_lock(tmp_path), pytest.raises(AlreadyRunningError):
        run_quickstart(settings, once=True, summary_file=None, console=Console())


def test_a_quick_start_may_follow_another(tmp_path: Path) -> None:
    for _ in range(2):
        with loop_lock(tmp_path):
            pass


def test_the_report_is_linked_where_mlflow_is_now() -> None:
    endpoints = Endpoints(
        pid=1,
        profile="smoke",
        started_at=datetime(2026, 1, 5, tzinfo=UTC),
        database_url="postgresql://",
        dagster_url="http://127.0.0.1:3001",
        mlflow_url="http://127.0.0.1:5002",
    )
    written = "http://127.0.0.1:5001/#/experiments/1/runs/07f8/artifacts"
    assert report_link(written, endpoints) == "http://127.0.0.1:5002/#/experiments/1/runs/07f8/artifacts"
    assert report_link(None, endpoints) == "http://127.0.0.1:3001/assets/deployment_candidate"
