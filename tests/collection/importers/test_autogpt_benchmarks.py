import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.collection.importers.imports import imported

NAME = "reports/beebot/20230817_full_run/report.json"


def leaf(**metrics: Any) -> dict[str, Any]:
    measured = {"difficulty": "basic", "success": True, "attempted": True, "run_time": "44.832 seconds", **metrics}
    return {"category": ["code", "iterate"], "task": "Write it", "metrics": measured, "reached_cutoff": False}


def report(**tests: Any) -> dict[str, Any]:
    return {"command": "agbenchmark start", "benchmark_start_time": "2023-08-17T00:01", "metrics": {}, "tests": tests}


def test_nested_tests_are_rows_and_units_are_read(tmp_path: Path) -> None:
    suite = {"metrics": {"success": True}, "tests": {"inner": leaf(success=False, run_time="1.5 minutes", cost=0.06)}}
    found = imported(tmp_path, report(single=leaf(cost=0), suite=suite), name=NAME)
    assert [execution.latency_ms for execution in found.executions] == [44832, 90000]
    assert [routing.source for routing in found.routing] == [
        "autogpt-benchmarks:single",
        "autogpt-benchmarks:suite/inner",
    ]
    assert found.report.agents == ("beebot",)
    assert found.report.task_types == ("code-editing",)
    assert found.report.fields["costUsd"] == 0.5
    assert found.report.fit == {"sft": 0, "onPolicyRl": 0}


def test_what_was_not_executed_or_not_attempted_is_no_failure(tmp_path: Path) -> None:
    idle = leaf(success=False)
    del idle["metrics"]["run_time"]
    skipped = leaf(success=False, attempted=False, run_time="0.001 seconds")
    found = imported(tmp_path, report(idle=idle, skipped=skipped, done=leaf(success=False)), name=NAME)
    assert (found.report.read, found.report.points) == (3, 1)
    assert found.report.rejected == {"not executed": 1, "not attempted": 1}


@pytest.mark.parametrize("start", ["2023-08-17T00:01", "2023-08-17-00:01", "2023-08-17T00:01:00+00:00"])
def test_all_spellings_of_a_time_are_read(tmp_path: Path, start: str) -> None:
    found = imported(tmp_path, {**report(a=leaf()), "benchmark_start_time": start}, name=NAME)
    assert found.routing[0].timestamp.isoformat() == "2023-08-17T00:01:00+00:00"


def test_an_archive_of_reports_with_definitions_beside_them(tmp_path: Path) -> None:
    definition = {"name": "T", "category": ["code"], "task": "Write", "ground": {}, "info": {}}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in ((NAME, report(a=leaf())), ("challenges/a/data.json", definition), (NAME + "2", report())):
            payload = json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(payload)
            tar.addfile(info, io.BytesIO(payload))
    found = imported(tmp_path, archive.getvalue(), name="reports.tar.gz")
    assert (found.report.read, found.report.points, found.report.rejected) == (1, 1, {})


def test_a_run_time_without_its_unit_is_rejected(tmp_path: Path) -> None:
    found = imported(tmp_path, report(a=leaf(run_time="44.8")), name=NAME)
    assert found.report.rejected == {"not of the format": 1}
    assert found.report.examples[0].item == "tests/a"
