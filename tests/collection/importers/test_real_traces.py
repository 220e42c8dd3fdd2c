"""Traces that nobody in this project wrote come in completely, count by count."""

from pathlib import Path

import pytest

from flywheel.collection.fidelity import FidelityReport
from flywheel.collection.ingest import ingest
from tests.collection.importers.imports import SHARED, request

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real traces are not in {SHARED}")


def report(tmp_path: Path, path: str) -> FidelityReport:
    found = ingest([str(SHARED / path)], tmp_path, request())
    assert found.read == found.points + found.waiting + found.duplicates + sum(found.rejected.values())
    return found


def test_agentdojo(tmp_path: Path) -> None:
    found = report(tmp_path, "trajectories/agentdojo")
    assert (found.read, found.points, found.tool_calls, len(found.agents)) == (18_359, 18_359, 69_004, 18)
    assert not any(agent.startswith("local") for agent in found.agents)


def test_tau2(tmp_path: Path) -> None:
    found = report(tmp_path, "trajectories/tau2")
    assert (found.read, found.points, len(found.agents)) == (621, 621, 12)


def test_tau_bench(tmp_path: Path) -> None:
    found = report(tmp_path, "trajectories/tau-bench-v1")
    assert (found.read, found.points) == (100, 100)


def test_autogpt_benchmarks(tmp_path: Path) -> None:
    found = report(tmp_path, "outcomes/autogpt-benchmarks")
    executed = found.read - found.rejected["not executed"]
    assert (found.read, executed, len(found.agents)) == (13_618, 12_499, 6)
    assert found.points == executed - found.rejected["not attempted"] == 12_499 - 6_459


def test_inspect_ai(tmp_path: Path) -> None:
    found = report(tmp_path, "trajectories/inspect-ai")
    assert (found.read, found.points, found.waiting) == (8, 7, 1)
