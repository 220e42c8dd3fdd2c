"""Real outcomes of others' agents, as rows for a replay."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flywheel.arbiter.routing.replay import Row

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def llmrouter() -> list[Row]:
    """Nine language models on thirteen benchmarks."""
    folder = DATA / "outcomes" / "llmrouter"
    with gzip.open(folder / "queries.jsonl.gz", "rt") as lines:
        kinds = {query["query"]: query["task_name"] for query in map(json.loads, lines)}
    with gzip.open(folder / "dcrouter.json.gz", "rt") as file:
        questions = json.load(file)
    return [
        Row(task_id=str(number), task_type=kinds[question["question"]], agent_id=agent_id, reward=score)
        for number, question in enumerate(questions)
        for agent_id, score in question["scores"].items()
    ]


def agentdojo(attack: str | None = None) -> list[Row]:
    """Eighteen agents on the tasks of four suites; under attack, a success is a task done for nobody but its user."""
    rows = []
    for path in sorted((DATA / "trajectories" / "agentdojo").glob(f"*.{'attack' if attack else 'none'}.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for run in map(json.loads, lines):
                if run["attack_type"] != attack:
                    continue
                right = run["utility"] and not (attack and run["security"])
                rows.append(
                    Row(
                        task_id=f"{run['suite_name']}/{run['user_task_id']}/{run['injection_task_id']}",
                        task_type=run["suite_name"],
                        agent_id=run.get("_path_agent") or run["pipeline_name"],
                        reward=float(bool(right)),
                        latency_ms=None if run["duration"] is None else 1000.0 * run["duration"],
                    )
                )
    return rows


def autogpt() -> list[Row]:
    """Six agents on dated runs of a benchmark: a case is a test on a day."""
    rows = []
    with tarfile.open(DATA / "outcomes" / "autogpt-benchmarks" / "reports.tar.gz") as archive:
        for member in sorted(archive.getnames()):
            if not member.endswith("report.json"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            text = file.read()
            if not text.strip():
                continue
            report = json.loads(text)
            began = report.get("benchmark_start_time") or report.get("completion_time")
            if not began:
                continue
            at = _moment(began)
            for name, leaf in _leaves(report.get("tests", {})):
                metrics = leaf["metrics"]
                if not metrics.get("attempted", True) or "run_time" not in metrics:
                    continue
                rows.append(
                    Row(
                        task_id=f"{int(at)}/{name}",
                        task_type=(leaf.get("category") or ["none"])[0],
                        agent_id=member.split("/")[1],
                        reward=float(bool(metrics["success"])),
                        at=float(int(at)),
                    )
                )
    return rows


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / 86_400.0


def _leaves(tests: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, test in tests.items():
        if "tests" in test:
            yield from _leaves(test["tests"])
        elif "metrics" in test:
            yield name, test
