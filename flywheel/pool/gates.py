"""The gates between raw and validated (SPEC section 3), as the table that is there.

The first three are judged at the door (``flywheel.pool.doors``), by the types of ``flywheel.records``; of them only the
open registry of task types is left for here. Privacy is judged after anonymizing (``flywheel.pool.anonymization``).
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from flywheel.pool.joining import Triple

Severity = Literal["quarantine", "warning", "critical"]

CLOCK_TOLERANCE = timedelta(minutes=5)  # clocks of arbiters and of the pool differ
OUTLIER_FACTOR = 3.0
UNTOOLED_TOKENS = 100
LOW_FOR_SUCCESS = 0.5
HIGH_FOR_FAILURE = 0.8


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a point is judged against. The 99th percentiles are of earlier days, by task type; absent where unknown."""

    now: datetime
    task_types: frozenset[str]
    latency_ms_p99: Mapping[str, float]
    tokens_p99: Mapping[str, float]


class Finding(Struct, frozen=True, kw_only=True):
    """A gate that did not hold, and why in words."""

    gate: str
    severity: Severity
    reason: str


Rule = Callable[[Triple, Surroundings], Iterator[str]]


class Gate(Struct, frozen=True):
    """A row of the table. ``rule`` yields a reason for each way in which a joined task does not hold it.

    It is absent where the gate is judged before joining or after anonymizing. ``waivable`` is what a reviewer may let
    a task pass in spite of; whatever else failed can only be mended.
    """

    name: str
    demands: str
    severity: Severity
    rule: Rule | None = None
    waivable: bool = False


def known_task_type(triple: Triple, around: Surroundings) -> Iterator[str]:
    """The task type is in the registry."""
    task_type = triple.routing.task_type
    if task_type not in around.task_types:
        yield f"task type {task_type!r} is unknown; add it to the setting task_types if it is right"


def times_agree(triple: Triple, around: Surroundings) -> Iterator[str]:
    """The first action is within the latency, nothing is from the future, and the three logs are in order."""
    execution = triple.execution
    first_action_ms = execution.time_to_first_action
    latency_ms = execution.latency_ms
    if first_action_ms is not None and latency_ms is not None and first_action_ms > latency_ms:
        yield f"timeToFirstAction {first_action_ms:g} ms is after the end at {latency_ms:g} ms"
    latest = max(triple.routing.timestamp, execution.timestamp, triple.evaluation.timestamp)
    if latest > around.now + CLOCK_TOLERANCE:
        yield f"timestamp {latest.isoformat()} lies in the future"
    if execution.timestamp < triple.routing.timestamp:
        yield "the execution was logged before its routing decision"
    if triple.evaluation.timestamp < execution.timestamp:
        yield "the evaluation was logged before its execution"


def logs_agree(triple: Triple, around: Surroundings) -> Iterator[str]:
    """The logs do not contradict each other or themselves."""
    del around
    routing, execution, evaluation = triple.routing, triple.execution, triple.evaluation
    for name, agent in (("executed", execution.agent_id), ("evaluated", evaluation.agent_id)):
        if agent != routing.selected_agent_id:
            yield f"agent {routing.selected_agent_id!r} was chosen, {agent!r} was {name}"
    if execution.success and evaluation.overall_score <= 0:
        yield "success with overallScore 0"
    calls = sum(tool.call_count for tool in execution.tools_used)
    if execution.tool_call_count != calls:
        yield f"toolCallCount is {execution.tool_call_count}, the calls in toolsUsed add up to {calls}"
    passed = all(gate.passed for gate in evaluation.quality_gates if gate.mandatory)
    if evaluation.passed_all_mandatory != passed:
        yield f"passedAllMandatory is {evaluation.passed_all_mandatory}, the mandatory gates say {passed}"


def score_is_plausible(triple: Triple, around: Surroundings) -> Iterator[str]:
    """Outcome, score and effort fit together as they usually do."""
    del around
    execution, score = triple.execution, triple.evaluation.overall_score
    if execution.success and score < LOW_FOR_SUCCESS:
        yield f"success with a score of {score:g}"
    if not execution.success and score > HIGH_FOR_FAILURE:
        yield f"failure with a score of {score:g}"
    idle = not execution.tool_call_count and not execution.thinking_tokens
    if (execution.tokens_used or 0) > UNTOOLED_TOKENS and idle:
        yield f"{execution.tokens_used} tokens without a tool call or thinking"


def is_measured(triple: Triple, around: Surroundings) -> Iterator[str]:
    """Latency and tokens were measured. Only imported logs may lack them: the gate complete sees to that."""
    del around
    for name in triple.execution.unmeasured:
        yield f"{name} is absent from where the log was imported from"


def is_no_outlier(triple: Triple, around: Surroundings) -> Iterator[str]:
    """Latency and tokens are within three times the 99th percentile of earlier days."""
    task_type, execution = triple.routing.task_type, triple.execution
    measured = (
        ("latencyMs", execution.latency_ms, around.latency_ms_p99.get(task_type)),
        ("tokensUsed", execution.tokens_used, around.tokens_p99.get(task_type)),
    )
    for name, value, p99 in measured:
        if p99 is not None and value is not None and value > OUTLIER_FACTOR * p99:
            yield f"{name} {value:g} is more than {OUTLIER_FACTOR:g} times the p99 of {task_type}, {p99:.4g}"


GATES: tuple[Gate, ...] = (
    Gate("complete", "all required fields and all six rubric scores are present", "quarantine"),
    Gate("types", "the schema decodes; enums and the task type are known", "quarantine", known_task_type),
    Gate("bounds", "scores 0–1, latency > 0, counts ≥ 0, reward multiplier 0.1–1", "quarantine"),
    Gate("time", "first action ≤ latency; not in the future; the three logs in order", "quarantine", times_agree, True),
    Gate("consistent", "success ⇒ score > 0; call counts, agents and gates agree", "quarantine", logs_agree, True),
    Gate("rejected", "no reviewer rejected it while one of its logs was missing", "quarantine", None, True),
    Gate("plausible", "outcome, score and effort fit together", "warning", score_is_plausible),
    Gate("measured", "latency and tokens were measured; imported logs may lack them", "warning", is_measured),
    Gate("outlier", "latency and tokens ≤ 3 × p99 of the task type's earlier days", "warning", is_no_outlier),
    Gate("privacy", "no PII and no secret in any string; tenantId is 64 hex digits", "critical"),
)
WARNING_GATES = frozenset(gate.name for gate in GATES if gate.severity == "warning")
WAIVABLE_GATES = frozenset(gate.name for gate in GATES if gate.waivable)


def judge(triple: Triple, around: Surroundings) -> tuple[Finding, ...]:
    """Every way in which a joined task does not hold a gate; empty for a clean one."""
    return tuple(
        Finding(gate=gate.name, severity=gate.severity, reason=reason)
        for gate in GATES
        if gate.rule is not None
        for reason in gate.rule(triple, around)
    )
