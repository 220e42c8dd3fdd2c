"""The whole loop, really: services, agents, pool, SFT, GRPO and comparison on a tiny model, killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flywheel.quickstart.ledger import read_ledger
from flywheel.services.endpoints import running
from flywheel.services.supervisor import shut_down
from flywheel.settings import Settings
from tests.services.conftest import free_port, left_over

pytest.importorskip("trl", reason="the loop trains: pip install 'arbiter-flywheel[training]'")
REPOSITORY = Path(__file__).resolve().parents[2]


class Quickstart:
    """``flywheel --profile smoke quickstart --once`` on one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True)
        self.summary = home.parent / "summary.json"
        self.output = home.parent / "output.txt"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FLYWHEEL_")},
            "PYTHONPATH": str(REPOSITORY),
            "FLYWHEEL_HOME": str(home),
            "FLYWHEEL_PROFILE": "smoke",
            "FLYWHEEL_PORTS__DAGSTER": str(free_port()),
            "FLYWHEEL_PORTS__MLFLOW": str(free_port()),
            "FLYWHEEL_PORTS__API": str(free_port()),
            "FLYWHEEL_PORTS__OTLP_GRPC": str(free_port()),
        }
        self.settings = Settings.load(profile="smoke", home=home)

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "flywheel.cli", "quickstart", "--once", "--summary", str(self.summary)]
        with self.output.open("ab") as output:
            return subprocess.Popen(
                command, cwd=self.home.parent, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )

    def wait_for(self, text: str, process: subprocess.Popen[bytes]) -> None:
        while text not in self.output.read_text():
            assert process.poll() is None, self.output.read_text()
            time.sleep(0.1)

    def finish(self) -> dict[str, Any]:
        assert self.start().wait() == 0, self.output.read_text()
        found: dict[str, Any] = json.loads(self.summary.read_text())
        return found


@pytest.mark.timeout(1500)
def test_a_loop_killed_on_the_way_ends_with_a_champion_and_counts_nothing_twice(open_folder: Path) -> None:
    quickstart = Quickstart(open_folder / "quickstart" / "home")
    try:
        killed = quickstart.start()
        quickstart.wait_for("tasks before ...", killed)
        time.sleep(2)
        killed.send_signal(signal.SIGKILL)
        killed.wait()

        stopped = quickstart.start()
        quickstart.wait_for("reinforcement learning ...", stopped)
        stopped.terminate()
        assert stopped.wait() == 128 + signal.SIGTERM
        assert left_over(quickstart.settings) == []
        [trained] = quickstart.home.glob("training/*/sft/result.json")
        trained_at = trained.stat().st_mtime_ns

        first = quickstart.finish()
        assert trained.stat().st_mtime_ns == trained_at, "SFT was done and was done again"
        assert_champion(first, quickstart.settings)
        assert left_over(quickstart.settings) == []
        assert running(quickstart.settings) is None

        again = quickstart.finish()
        assert again["seconds"] == first["seconds"]
        assert (again["models"], again["routing"], again["pool"]) == (first["models"], first["routing"], first["pool"])
    finally:
        shut_down(quickstart.settings)


def assert_champion(found: dict[str, Any], settings: Settings) -> None:
    assert found["candidate"]["registered"], found["candidate"]["reason"]
    assert found["models"]["grpo"]["greedy"]["exact"] > found["models"]["base"]["greedy"]["exact"]
    tasks = settings.tasks.routed_before + settings.tasks.routed_after
    assert found["routing"]["before"]["tasks"] + found["routing"]["after"]["tasks"] == tasks
    assert found["pool"]["points"] == tasks
    # A kill between the logs of a task leaves lines that a later attempt superseded: duplicates, or in quarantine.
    surplus = found["pool"]["duplicates"] + found["pool"]["quarantined"]
    assert found["pool"]["lines"] == 3 * tasks + surplus
    assert surplus <= 2
    assert found["pool"]["waiting"] == 0
    assert set(found["routing"]["after"]["agents"]) - set(found["routing"]["before"]["agents"]), (
        "no new agent got a task"
    )
    assert found["peakMemoryGiB"] > 0.5
    assert {"base model", "tasks before", "sft_model", "grpo_model"} <= found["seconds"].keys()
    assert read_ledger(settings.home).seconds.keys() == found["seconds"].keys()
