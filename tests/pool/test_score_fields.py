"""Which fields of a point are computed from a score: where rewards get noise, no true one stays in any of them."""

import msgspec

from flywheel.pool.joining import Triple, point_of
from flywheel.pool.reward_noise import KEPT_OF_EXECUTION, noised_point
from flywheel.records import (
    CandidateAgent,
    Caws,
    CawsScores,
    DataPoint,
    ExecutionPart,
    Feedback,
    HistoricalPerformance,
    Iteration,
    MinimalDiffMetrics,
    decode_log,
    encode,
)
from tests.pool.logs import NOON, evaluation, execution, routing

RUBRIC = ("format", "tool", "task", "minimal", "cost", "safety")
MARKED = 0.8125
"""A score whose digits show it anywhere in a point."""
TURN_TERMS = ("informationGain", "formatCorrectness", "taskProgress", "safetyScore", "turnReward")
TURN = {"turnNumber": 1, "toolCalled": "tool-1", **dict.fromkeys(TURN_TERMS, MARKED)}


def full_point() -> DataPoint:
    """A point that has something in every field that a score could be in."""
    agent = dict.fromkeys(("capability_score", "performance_score", "load_score", "final_score", "propensity"), MARKED)
    logs = [
        routing("t1", confidence=MARKED, primaryReason=f"sampled {MARKED}", secondaryFactors=[f"mean {MARKED}"]),
        execution("t1", tokenEfficiency=MARKED),
        evaluation("t1", overallScore=MARKED, turnData=[TURN], rubricScores=dict.fromkeys(RUBRIC, MARKED)),
    ]
    routed, executed, evaluated = (decode_log(msgspec.json.encode(log)) for log in logs)
    replace = msgspec.structs.replace
    point = point_of(
        Triple(
            routing=replace(
                routed, candidate_agents=(CandidateAgent(agent_id="a", selection_reason=f"{MARKED}", **agent),)
            ),
            execution=replace(
                executed,
                iterations=(
                    Iteration(iteration=1, latency_ms=1, tokens_used=1, quality_score=MARKED, feedback=f"{MARKED}"),
                ),
            ),
            evaluation=replace(
                evaluated,
                caws=Caws(
                    verdict_id="v",
                    arbiter_signature="s",
                    scores=CawsScores(**dict.fromkeys(CawsScores.__struct_fields__, MARKED)),
                ),
                minimal_diff_metrics=MinimalDiffMetrics(
                    ast_similarity=MARKED,
                    file_touch_count=1,
                    line_change_ratio=MARKED,
                    scaffolding_penalty=MARKED,
                    reward_multiplier=MARKED,
                ),
            ),
            feedback=(Feedback(task_id="t1", timestamp=NOON, source="user", name="rating", value=MARKED),),
            lines=(),
        ),
        historical=HistoricalPerformance(agent_success_rate=MARKED, agent_avg_quality=MARKED, agent_task_count=1),
        warnings=(f"plausible {MARKED}",),
        waived=(f"plausible {MARKED}",),
    )
    return replace(point, rl_labels=replace(point.rl_labels, advantage=MARKED))


def test_nothing_that_is_computed_from_a_score_stays_in_a_point() -> None:
    point = full_point()
    assert encode(point).count(str(MARKED).encode()) > 30
    copy = noised_point(point, [0.25, 0.5])
    assert str(MARKED).encode() not in encode(copy)
    assert copy.caws is msgspec.UNSET, "its id would name the point, and the trail its scores"
    assert (copy.rl_labels.total_reward, copy.evaluation.overall_score) == (0.25, 0.25)
    assert {getattr(copy.evaluation.rubric_scores, term) for term in RUBRIC} == {0.25}
    assert [turn.turn_reward for turn in copy.rl_labels.turns] == [0.5]
    assert (copy.task, copy.execution.messages, copy.timestamp) == (
        point.task,
        point.execution.messages,
        point.timestamp,
    )
    assert copy.id != point.id


def test_every_field_of_an_execution_was_thought_of() -> None:
    """A field that is added to executions has to be kept, or named here because it tells of the score."""
    left_out = {"token_efficiency", "iterations"}
    assert set(ExecutionPart.__struct_fields__) == {*KEPT_OF_EXECUTION, *left_out}
