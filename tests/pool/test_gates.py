from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from flywheel.pool.gates import Surroundings, judge
from flywheel.pool.headers import key_of
from flywheel.pool.joining import Triple, join
from flywheel.pool.parts import RawLine
from tests.pool.logs import NOON, Log, evaluation, execution, lines_of, routing

AROUND = Surroundings(
    now=NOON + timedelta(hours=1),
    task_types=frozenset({"tool-calling"}),
    latency_ms_p99={"tool-calling": 200.0},
    tokens_p99={"tool-calling": 50.0},
)
MANDATORY = {"name": "valid_format", "score": 0, "threshold": 1}


def raw_lines(logs: Sequence[Log]) -> list[RawLine]:
    return [
        RawLine(
            payload=line,
            segment="s",
            arrived_at=NOON,
            log=log["log"],
            task_id="t",
            task_key=key_of("t"),
            owner_key=b"acme",
        )
        for log, line in zip(logs, lines_of(logs), strict=True)
    ]


def triple(*, asked: dict[str, Any] | None = None, **done: Any) -> Triple:
    judged = {name: done.pop(name) for name in ("overallScore", "qualityGates", "passedAllMandatory") if name in done}
    joined = join(raw_lines([routing("t", **(asked or {})), execution("t", **done), evaluation("t", **judged)]))
    assert joined.triple is not None
    return joined.triple


def test_a_task_that_went_well_passes_every_gate() -> None:
    assert judge(triple(), AROUND) == ()


@pytest.mark.parametrize(
    ("changes", "gate", "severity", "words"),
    [
        ({"asked": {"taskType": "magic"}}, "types", "quarantine", "task type 'magic' is unknown"),
        ({"timeToFirstAction": 401}, "time", "quarantine", "timeToFirstAction 401 ms is after the end at 400 ms"),
        ({"toolCallCount": 3}, "consistent", "quarantine", "toolCallCount is 3, the calls in toolsUsed add up to 1"),
        ({"overallScore": 0}, "consistent", "quarantine", "success with overallScore 0"),
        ({"agentId": "agent-z"}, "consistent", "quarantine", "agent 'agent-a' was chosen, 'agent-z' was executed"),
        ({"passedAllMandatory": False}, "consistent", "quarantine", "the mandatory gates say True"),
        (
            {"qualityGates": [{**MANDATORY, "passed": False, "mandatory": True}]},
            "consistent",
            "quarantine",
            "passedAllMandatory is True, the mandatory gates say False",
        ),
        ({"overallScore": 0.4}, "plausible", "warning", "success with a score of 0.4"),
        ({"success": False}, "plausible", "warning", "failure with a score of 0.95"),
        (
            {"toolCallCount": 0, "toolsUsed": [], "tokensUsed": 101},
            "plausible",
            "warning",
            "101 tokens without a tool call or thinking",
        ),
        ({"latencyMs": 601}, "outlier", "warning", "latencyMs 601 is more than 3 times the p99 of tool-calling, 200"),
        ({"tokensUsed": 151}, "outlier", "warning", "tokensUsed 151 is more than 3 times the p99 of tool-calling, 50"),
    ],
)
def test_each_gate_says_what_is_wrong(changes: dict[str, Any], gate: str, severity: str, words: str) -> None:
    findings = judge(triple(**changes), AROUND)
    assert (gate, severity) in {(finding.gate, finding.severity) for finding in findings}
    assert any(words in finding.reason for finding in findings)


@pytest.mark.parametrize(
    "changes",
    [
        {"timeToFirstAction": 400},
        {"latencyMs": 600, "tokensUsed": 150},
        {"overallScore": 0.5},
        {"success": False, "overallScore": 0.8},
        {"toolCallCount": 0, "toolsUsed": [], "tokensUsed": 100},
        {"toolCallCount": 0, "toolsUsed": [], "tokensUsed": 140, "thinkingTokens": 90},
        {"qualityGates": [{**MANDATORY, "passed": False, "mandatory": False}]},
    ],
)
def test_what_lies_on_the_bound_passes(changes: dict[str, Any]) -> None:
    assert judge(triple(**changes), AROUND) == ()


@pytest.mark.parametrize(
    ("log", "at", "words"),
    [
        ("execution", NOON - timedelta(seconds=1), "the execution was logged before its routing decision"),
        ("evaluation", NOON, "the evaluation was logged before its execution"),
        ("evaluation", NOON + timedelta(hours=2), "lies in the future"),
    ],
)
def test_logs_out_of_order_or_from_the_future_fail_the_time_gate(log: str, at: Any, words: str) -> None:
    logs = [routing("t"), execution("t"), evaluation("t")]
    changed = [{**each, "timestamp": at.isoformat()} if each["log"] == log else each for each in logs]
    joined = join(raw_lines(changed)).triple
    assert joined is not None
    findings = judge(joined, AROUND)
    assert {(finding.gate, finding.severity) for finding in findings} == {("time", "quarantine")}
    assert any(words in finding.reason for finding in findings)


def test_without_earlier_days_nothing_is_an_outlier() -> None:
    unknown = Surroundings(now=AROUND.now, task_types=AROUND.task_types, latency_ms_p99={}, tokens_p99={})
    assert judge(triple(latencyMs=1e9), unknown) == ()
