"""The project's own formats: four logs as lines, and whole points, which come back as the points that they were."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flywheel.collection.ingest import ingest
from flywheel.pool.joining import join, point_of
from flywheel.records import DataPoint, HistoricalPerformance
from tests.collection.importers.imports import Imported, imported
from tests.pool.logs import NOON, Log, evaluation, execution, routing
from tests.pool.test_gates import raw_lines

CANDIDATE = {
    "agentId": "agent-a",
    "capabilityScore": 0.9,
    "performanceScore": 0.8,
    "loadScore": 1.0,
    "finalScore": 0.85,
    "selectionReason": "highest sample",
    "propensity": 0.7,
}
TURN = {
    "turnNumber": 1,
    "toolCalled": "search",
    "informationGain": 0.5,
    "formatCorrectness": 1.0,
    "taskProgress": 0.75,
    "safetyScore": 1.0,
    "turnReward": 0.75,
}
DIFF = {
    "astSimilarity": 0.9,
    "fileTouchCount": 1,
    "lineChangeRatio": 0.1,
    "scaffoldingPenalty": 0.0,
    "rewardMultiplier": 0.93,
}
BUDGET = {"filesUsed": 1, "filesLimit": 2, "locUsed": 3, "locLimit": 4, "budgetCompliant": True}
LOGS: list[Log] = [
    routing("t", candidateAgents=[CANDIDATE], requirements=["search"], secondaryFactors=["idle"]),
    execution(
        "t",
        partialSuccess=False,
        thinkingTokens=5,
        outputTokens=9,
        toolCallSuccessRate=1.0,
        tokenEfficiency=0.5,
        timeToFirstAction=20.0,
        iterations=[{"iteration": 1, "latencyMs": 4.0, "tokensUsed": 9, "qualityScore": 0.9, "feedback": "shorter"}],
        cachedFrom="earlier",
    ),
    evaluation(
        "t",
        minimalDiffMetrics=DIFF,
        turnData=[TURN],
        rubric="builtin@1",
        caws={"verdictId": "v-1", "gatesPassed": ["valid_format"], "budgetUsage": BUDGET},
    ),
    {
        "log": "feedback",
        "taskId": "t",
        "source": "reviewer",
        "name": "accepted",
        "value": True,
        "timestamp": (NOON + timedelta(hours=1)).isoformat(),
    },
]


def point(logs: list[Log]) -> DataPoint:
    triple = join(raw_lines(logs)).triple
    assert triple is not None
    return point_of(triple, historical=HistoricalPerformance())


def logs_in(found: Imported) -> list[Any]:
    logs = [*found.routing, *found.executions, *found.evaluations, *found.feedback]
    return [msgspec.to_builtins(log) for log in logs]


FORMS: dict[str, Callable[[list[Any]], str]] = {
    "a line": lambda values: "".join(json.dumps(value) + "\n" for value in values),
    "a list": json.dumps,
    "an indented list": lambda values: json.dumps(values, indent=1),
    "indented": lambda values: "\n".join(json.dumps(value, indent=2) for value in values),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_four_logs_come_in_as_they_are(tmp_path: Path, form: str) -> None:
    found = imported(tmp_path, FORMS[form](LOGS), name="logs.json")
    assert (found.report.format, found.report.read, found.report.points, found.report.rejected) == ("native", 4, 1, {})
    assert point(logs_in(found)) == point(LOGS)


@pytest.mark.parametrize("form", FORMS)
def test_a_data_point_comes_back_as_the_point_that_it_was(tmp_path: Path, form: str) -> None:
    """But for its id: its logs had times of their own, which a point does not keep."""
    before = point(LOGS)
    wire: Any = msgspec.to_builtins(before)
    found = imported(tmp_path, FORMS[form]([wire]), name="points.json")
    assert (found.report.read, found.report.points, found.report.rejected) == (1, 1, {})
    after = point(logs_in(found))
    assert msgspec.structs.replace(after, id=before.id) == before
    assert not after.rl_ready  # its answer was given before: nothing is learned from it twice


def test_a_point_without_what_an_arbiter_must_say_is_named(tmp_path: Path) -> None:
    wire: Any = msgspec.to_builtins(point(LOGS))
    del wire["evaluation"]["overallScore"]
    found = imported(tmp_path, [wire], name="points.jsonl")
    assert found.report.rejected == {"no data point": 1}
    assert "overallScore" in found.report.examples[0].detail


@pytest.mark.parametrize(
    ("value", "reason"), [(LOGS[0], "no log"), (msgspec.to_builtins(point(LOGS)), "no data point")]
)
def test_what_is_wrong_in_a_list_is_named_with_its_place(tmp_path: Path, value: Any, reason: str) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([value, {**value, "timestamp": "soon"}]))
    (example,) = ingest([str(path)], tmp_path / "segments").examples
    assert (example.reason, example.line, example.item) == (reason, 1, "[1]")
