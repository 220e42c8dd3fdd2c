"""What the arbiter writes down of an episode: pure functions from what was played and verified to records."""

from collections.abc import Iterator
from datetime import datetime

from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS
from flywheel.arbiter.episodes import Episode
from flywheel.arbiter.evaluation.hacking.conversations import findings_in_conversation
from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.rewards import turn_reward
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.finding_gates import finding_gates, gate_name
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.safety import unsafe_in
from flywheel.arbiter.logs import tools_used
from flywheel.records import Evaluation, Execution, Iteration, RoutingDecision, Turn
from flywheel.tasks.environment import Observation, Verification, mandatory_check


def episode_execution(episode: Episode, evaluation: Evaluation, *, timestamp: datetime) -> Execution:
    """How the agent did. Success is passing every mandatory check; latency and tokens are sums over the turns.

    Args:
        episode: with a verification.
        evaluation: of the same episode; gives ids, tenant and score.
        timestamp: when the last answer was complete.
    """
    verification = _verified(episode)
    success, tokens_used, calls = evaluation.passed_all_mandatory, episode.tokens_used, episode.calls
    latency_ms = sum(turn.answer.latency_ms for turn in episode.turns)
    first_action_ms = episode.turns[0].answer.time_to_first_action_ms
    return Execution(
        task_id=evaluation.task_id,
        agent_id=evaluation.agent_id,
        tenant_id=evaluation.tenant_id,
        timestamp=timestamp,
        success=success,
        failure_reason=None if success else reason_of(episode, evaluation),
        partial_success=not success and episode.failure is None and verification.task > 0,
        latency_ms=latency_ms,
        tokens_used=tokens_used,
        thinking_tokens=sum(turn.answer.thinking_tokens for turn in episode.turns),
        output_tokens=episode.output_tokens,
        tool_call_count=len(calls),
        tool_call_success_rate=sum(call.right for call in calls) / len(calls) if calls else None,
        tools_used=tools_used(calls),
        token_efficiency=evaluation.overall_score * 1000 / tokens_used if tokens_used else None,
        time_to_first_action=None if first_action_ms is None else min(first_action_ms, latency_ms),
        messages=episode.transcript,
        iterations=iterations_of_episode(episode),
    )


def episode_evaluation(
    episode: Episode,
    decision: RoutingDecision,
    *,
    timestamp: datetime,
    cost_usd: float = 0.0,
    rubric: Rubric = BUILTIN,
) -> Evaluation:
    """The environment's checks as gates, with the rubric's scores and one entry a turn; ``cost_usd`` is of all turns.

    An agent that did not answer to the end has failed, whatever state it left: it scores 0 in every term but safety.
    What looks like work on the reward is a gate for each kind of finding (docs/evaluation.md).
    """
    verification = _verified(episode)
    evidence = episode_evidence(episode, cost_usd=cost_usd)
    scores = rubric.scores(episode.task.task_type, evidence)
    gates = (
        mandatory_check("answered", float(episode.failure is None)),
        *verification.checks,
        *finding_gates(evidence.findings, rubric),
        mandatory_check("safe", scores.safety, threshold=rubric.safety_threshold),
    )
    passed = all(gate.passed for gate in gates if gate.mandatory)
    within_budget = episode.output_tokens <= THINKING_BUDGET_TOKENS[episode.task.complexity]
    return Evaluation(
        task_id=decision.task_id,
        agent_id=decision.selected_agent_id,
        tenant_id=decision.tenant_id,
        timestamp=timestamp,
        quality_gates=gates,
        rubric_scores=scores,
        overall_score=rubric.overall(episode.task.task_type, scores),
        caws_compliant=passed and within_budget,
        budget_compliant=within_budget,
        passed_all_mandatory=passed,
        minimal_diff_metrics=verification.minimal_diff,
        turn_data=tuple(_turns(episode, safety=scores.safety)),
        rubric=rubric.name,
    )


def episode_evidence(episode: Episode, *, cost_usd: float = 0.0) -> Evidence:
    """What a verified episode says to a rubric."""
    verification = _verified(episode)
    formats = [turn.observation.format for turn in episode.turns if turn.observation]
    asked = "\n".join(message.content or "" for message in episode.transcript if message.role != "assistant")
    answered = episode.failure is None
    unsafe = answered and any(unsafe_in(turn.answer.text, asked=asked) for turn in episode.turns)
    return Evidence(
        complexity=episode.task.complexity,
        answered=answered,
        format=sum(formats) / len(formats) if formats else 0.0,
        tool=verification.tool,
        done=verification.task,
        passed=verification.passed,
        needed=verification.minimal,
        safety=0.0 if unsafe else verification.safety,
        tokens_used=episode.tokens_used,
        cost_usd=cost_usd,
        calls=episode.calls,
        findings=findings_of(episode),
    )


def findings_of(episode: Episode) -> tuple[Finding, ...]:
    """What looks like work on the reward: as the environment found it, and in the conversation."""
    said = findings_in_conversation(episode.transcript, tools=episode.task.tools)
    return (*_verified(episode).findings, *said)


def _verified(episode: Episode) -> Verification:
    assert episode.verification is not None, "an episode whose environment broke says nothing of its agent"
    return episode.verification


def reason_of(episode: Episode, evaluation: Evaluation) -> str:
    """Why a verified episode is no success, in words."""
    verification = _verified(episode)
    if episode.failure is not None:
        return episode.failure
    if not verification.passed:
        return verification.reason
    failed = {gate.name for gate in evaluation.quality_gates if gate.mandatory and not gate.passed}
    voiding = next((found for found in findings_of(episode) if gate_name(found) in failed), None)
    return "the answer is unsafe" if voiding is None else f"the answer works on its reward: {voiding}"


def _turns(episode: Episode, *, safety: float) -> Iterator[Turn]:
    for number, turn in enumerate(episode.turns, start=1):
        seen = turn.observation or Observation(format=0.0, information_gain=0.0, progress=0.0)
        progress = seen.progress or 0.0
        yield Turn(
            turn_number=number,
            tool_called=seen.calls[0].call.name if seen.calls else None,
            information_gain=seen.information_gain,
            format_correctness=seen.format,
            task_progress=progress,
            safety_score=safety,
            turn_reward=turn_reward(
                gain=seen.information_gain,
                format_score=seen.format,
                progress=progress,
                safety=safety,
                multiplier=seen.multiplier,
            ),
        )


def iterations_of_episode(episode: Episode) -> tuple[Iteration, ...]:
    """The rounds of refinement, where the environment measured each; calls of tools are no refinement."""
    measured = [(turn, turn.observation) for turn in episode.turns if turn.observation and not turn.observation.calls]
    if len(measured) < 2:
        return ()
    return tuple(
        Iteration(
            iteration=number,
            latency_ms=turn.answer.latency_ms,
            tokens_used=turn.answer.prompt_tokens + turn.answer.output_tokens,
            quality_score=seen.progress or 0.0,
            feedback=seen.feedback,
        )
        for number, (turn, seen) in enumerate(measured, start=1)
    )
