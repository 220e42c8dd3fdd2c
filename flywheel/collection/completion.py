"""Makes the pool's logs of an imported run, and names every rule by which they were completed.

What a source does not have is never measured after the fact: latency and tokens stay absent, and the gates say so. What
a log cannot be without, a time and a rubric, is filled by the rules below; their names go with the point.
"""

from collections.abc import Mapping as Dictionary
from datetime import datetime, timedelta

from msgspec import Struct

from flywheel.collection.importers.interface import Note, Rejected, Run, ToolTally
from flywheel.collection.mapping import Mapping, RewardMapping, graded
from flywheel.records import (
    Complexity,
    Evaluation,
    Execution,
    Feedback,
    Imported,
    Log,
    QualityGate,
    RoutingDecision,
    RubricScores,
    Strategy,
    ToolUse,
)

SAFETY_THRESHOLD = 0.8  # SPEC section 8, judges
LONGEST_ID = 512
DESCRIPTION_CHARACTERS = 4000
COMPLEX_TOOLS, COMPLEX_STEPS, STANDARD_STEPS = 3, 5, 2  # SPEC section 7

NO_ROUTING = "no-routing-decision: strategy fallback, confidence 0, no candidates"
RUBRIC = "rubric-of-reward: every term that the source did not judge is the reward"
SAFETY = "safety-not-judged: taken as 1"
NO_COMPLIANCE = "compliance-not-judged: taken as not shown"
TIME_OF_MAPPING = "time-of-mapping"
TIME_OF_FILE = "time-of-file"
COMPLEXITY = "complexity-of-tools-and-steps"


class Terms(Struct, frozen=True, kw_only=True):
    """What holds for all runs of an import.

    Attributes:
        format: of the source.
        tenant_id: whose runs they are.
        task_type: of all of them; empty: as the mapping or the importer says.
        mapping: what a person said about the source.
        written_at: when the document was written; what has no time of its own gets this.
    """

    format: str
    tenant_id: str
    task_type: str = ""
    mapping: Mapping = Mapping()
    written_at: datetime | None = None


class Completed(Struct, frozen=True):
    """The logs of a run. Without an evaluation they wait in the pool for one."""

    logs: tuple[Log, ...]
    task_type: str
    agent_id: str
    waits: bool
    rules: tuple[str, ...]


def complete(run: Run, terms: Terms) -> Completed | Rejected:
    """The logs of a run, or why it can have none."""
    rules = [*run.derived, NO_ROUTING, COMPLEXITY]
    started_at = run.started_at
    if started_at is None:
        started_at = terms.mapping.timestamp or terms.written_at
        rules.append(TIME_OF_MAPPING if terms.mapping.timestamp else TIME_OF_FILE)
        if started_at is None:
            return Rejected(reason="no time", detail="neither run nor file has one; give timestamp in a mapping")
    task_id = f"{terms.format}:{run.key}"
    agent_id = terms.mapping.agents.get(run.agent_id, run.agent_id)
    if too_long := next((name for name in (task_id, agent_id, run.category) if len(name) > LONGEST_ID), None):
        return Rejected(reason="name too long", detail=f"{too_long[:80]}… has more than {LONGEST_ID} characters")
    reward = reward_of(run, terms.mapping, rules)
    if isinstance(reward, Rejected):
        return reward
    try:
        # Of logs of one kind the pool joins the latest: a mapping's higher revision replaces what a lower one made.
        ended_at = started_at + timedelta(milliseconds=(run.latency_ms or 0) + terms.mapping.revision)
    except OverflowError:
        return Rejected(reason="no time", detail=f"{started_at} and {run.latency_ms} ms are beyond the calendar")
    overall = None if reward is None else overall_of(run, reward)
    success = overall != 0 and succeeded(run, reward, terms.mapping)
    task_type = terms.task_type or terms.mapping.task_types.get(run.category, run.task_type)
    keys = Keys(terms.tenant_id, task_id, agent_id, ended_at)
    origin = Imported(format=terms.format, rules=tuple(dict.fromkeys(rules)), absent=absent_of(run))
    logs: list[Log] = [
        routing_of(run, keys, origin, started_at=started_at, task_type=task_type),
        execution_of(run, keys, origin, success=success, reward=reward),
    ]
    if reward is not None:
        logs.append(evaluation_of(run, keys, origin, reward=reward, success=success, mapping=terms.mapping.reward))
    logs += [feedback_of(note, keys) for note in run.notes]
    return Completed(tuple(logs), task_type, agent_id, reward is None, origin.rules)


class Keys(Struct, frozen=True):
    """What the logs of a run share."""

    tenant_id: str
    task_id: str
    agent_id: str
    ended_at: datetime


def reward_of(run: Run, mapping: Mapping, rules: list[str]) -> float | Rejected | None:
    """The run's reward: the mapping's where it says one, else the format's own; None where nobody has one."""
    if mapping.reward is None and run.reward is None and run.scores:
        named = ", ".join(sorted(run.scores)[:10])
        return Rejected(reason="no mapping", detail=f"which score is the reward is not known; it has {named}")
    if mapping.reward is None:
        return run.reward
    result = graded(mapping.reward, run.scores)
    if result.problem:
        return Rejected(reason="score not as mapped", detail=result.problem)
    if result.reward is None:
        if mapping.reward.missing == "reject":
            return Rejected(reason="no reward", detail=f"it has no score {mapping.reward.score!r}")
        return None
    rules.append(mapping.reward.rule)
    return result.reward


def succeeded(run: Run, reward: float | None, mapping: Mapping) -> bool:
    """Whether the run is a success: as the mapping's threshold says, or the source, or where the reward is full."""
    if mapping.reward is not None and reward is not None:
        return reward >= mapping.reward.threshold
    if run.success is not None:
        return run.success
    return reward is not None and reward >= 1


def absent_of(run: Run) -> tuple[str, ...]:
    """Wire names of what the source has not, of what an arbiter measures."""
    measured = (
        ("latencyMs", run.latency_ms or None),
        ("tokensUsed", run.tokens_used),
        ("timeToFirstAction", run.first_action_ms),
        ("messages", run.messages or None),
        ("tokenIds", run.token_ids or None),
    )
    return tuple(name for name, value in measured if value is None)


def overall_of(run: Run, reward: float) -> float:
    """The overall score that a reward amounts to: 0 where the source found the run unsafe, as SPEC section 8 has it."""
    return reward if run.safety is None or run.safety >= SAFETY_THRESHOLD else 0.0


def routing_of(run: Run, keys: Keys, origin: Imported, *, started_at: datetime, task_type: str) -> RoutingDecision:
    """The routing decision that nobody logged: who did the task, and that it is not known why."""
    return RoutingDecision(
        timestamp=started_at,
        tenant_id=keys.tenant_id,
        task_id=keys.task_id,
        task_type=task_type,
        complexity=complexity_of(run),
        selected_agent_id=keys.agent_id,
        strategy=Strategy.FALLBACK,
        confidence=0.0,
        candidate_agents=(),
        primary_reason=f"imported from {origin.format}",
        description=run.description[:DESCRIPTION_CHARACTERS],
        requirements=tuple(filter(None, (run.category, *run.requirements))),
        source=run.source,
        imported=origin,
    )


def complexity_of(run: Run) -> Complexity:
    """SPEC section 7, of what was done: different tools and steps of the agent."""
    steps = sum(message.role == "assistant" for message in run.messages)
    if len(run.tools) >= COMPLEX_TOOLS or steps >= COMPLEX_STEPS:
        return Complexity.COMPLEX
    if run.tools or steps >= STANDARD_STEPS or not run.messages:
        return Complexity.STANDARD
    return Complexity.TRIVIAL


def execution_of(run: Run, keys: Keys, origin: Imported, *, success: bool, reward: float | None) -> Execution:
    """How the agent did, as far as the source tells."""
    uses = tools_used(run.tools)
    return Execution(
        task_id=keys.task_id,
        agent_id=keys.agent_id,
        timestamp=keys.ended_at,
        success=success,
        latency_ms=run.latency_ms or None,
        tokens_used=run.tokens_used,
        tool_call_count=sum(use.call_count for use in uses),
        failure_reason=None if success else run.failure_reason,
        partial_success=not success and bool(reward),
        thinking_tokens=run.thinking_tokens or 0,
        output_tokens=run.output_tokens or 0,
        tool_call_success_rate=success_rate(run.tools),
        tools_used=uses,
        time_to_first_action=run.first_action_ms,
        messages=run.messages,
        tenant_id=keys.tenant_id,
        imported=origin,
    )


def tools_used(tools: Dictionary[str, ToolTally]) -> tuple[ToolUse, ...]:
    """The tally as the execution log has it."""
    return tuple(
        ToolUse(
            tool_name=name,
            call_count=tally.calls,
            success_rate=None if tally.failures is None or not tally.calls else 1 - tally.failures / tally.calls,
            average_latency=tally.average_latency_ms,
        )
        for name, tally in tools.items()
    )


def success_rate(tools: Dictionary[str, ToolTally]) -> float | None:
    """Share of the calls that went well; None where there was none or the source does not say."""
    calls = failures = 0
    for tally in tools.values():
        if tally.failures is None:
            return None
        calls += tally.calls
        failures += tally.failures
    return 1 - failures / calls if calls else None


def evaluation_of(
    run: Run,
    keys: Keys,
    origin: Imported,
    *,
    reward: float,
    success: bool,
    mapping: RewardMapping | None,
) -> Evaluation:
    """The evaluation that a reward amounts to: the overall score is the reward, the rubric follows it."""
    went_well = success_rate(run.tools)
    safety = 1.0 if run.safety is None else run.safety
    overall = overall_of(run, reward)
    rules = (*origin.rules, RUBRIC, NO_COMPLIANCE, *((SAFETY,) if run.safety is None else ()))
    threshold = 1.0 if mapping is None else mapping.threshold
    gates = [QualityGate(name="reward", passed=success, score=overall, threshold=threshold, mandatory=True)]
    if run.safety is not None:
        gates.append(
            QualityGate(
                name="safe", passed=safety >= SAFETY_THRESHOLD, score=safety, threshold=SAFETY_THRESHOLD, mandatory=True
            )
        )
    return Evaluation(
        task_id=keys.task_id,
        agent_id=keys.agent_id,
        timestamp=keys.ended_at,
        quality_gates=tuple(gates),
        rubric_scores=RubricScores(
            format=run.rubric.get("format", reward),
            tool=run.rubric.get("tool", reward if went_well is None else went_well),
            task=run.rubric.get("task", reward),
            minimal=run.rubric.get("minimal", reward),
            cost=run.rubric.get("cost", reward),
            safety=safety,
        ),
        overall_score=overall,
        caws_compliant=False,
        budget_compliant=False,
        passed_all_mandatory=all(gate.passed for gate in gates if gate.mandatory),
        tenant_id=keys.tenant_id,
        imported=Imported(format=origin.format, rules=rules, absent=origin.absent),
    )


def feedback_of(note: Note, keys: Keys) -> Feedback:
    """What somebody said of the run."""
    return Feedback(
        task_id=keys.task_id,
        timestamp=note.timestamp or keys.ended_at,
        source=note.source,
        name=note.name,
        value=note.value,
        tenant_id=keys.tenant_id,
    )
