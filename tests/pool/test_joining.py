from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.joining import join, point_of
from flywheel.records import HistoricalPerformance, encode
from tests.pool.logs import NOON, Log, evaluation, execution, routing
from tests.pool.test_gates import raw_lines

FEEDBACK: Log = {
    "log": "feedback",
    "taskId": "t",
    "source": "reviewer",
    "name": "accepted",
    "value": True,
    "timestamp": (NOON + timedelta(hours=1)).isoformat(),
}
LOGS = [
    routing("t"),
    execution("t"),
    execution("t", at=NOON + timedelta(seconds=1.5), latencyMs=9.0),
    execution("t", at=NOON + timedelta(seconds=1.8), agentId="agent-z"),
    evaluation("t"),
    FEEDBACK,
    {**FEEDBACK, "name": "thumb", "value": 1.0},
]
NO_HISTORY = HistoricalPerformance()


@given(order=st.permutations(LOGS + LOGS[:3]))
def test_logs_in_any_order_make_the_same_point(order: list[Log]) -> None:
    expected, joined = join(raw_lines(LOGS)), join(raw_lines(order))
    assert joined.triple is not None
    assert expected.triple is not None
    point = point_of(joined.triple, historical=NO_HISTORY)
    assert encode(point) == encode(point_of(expected.triple, historical=NO_HISTORY))
    assert (joined.lines, joined.duplicates) == (len(order), 3)


@given(logs=st.lists(st.sampled_from(LOGS), max_size=12))
def test_every_line_of_a_task_is_in_exactly_one_place(logs: list[Log]) -> None:
    joined = join(raw_lines(logs))
    assert joined.lines == len(logs)
    assert not (joined.triple and joined.waiting)


def test_the_agent_that_was_chosen_goes_before_a_later_one() -> None:
    joined = join(raw_lines(LOGS))
    assert joined.triple is not None
    assert (joined.triple.execution.agent_id, joined.triple.execution.latency_ms) == ("agent-a", 9.0)
    assert {rejection.gates for rejection in joined.rejections} == {("superseded",)}
    assert len(joined.rejections) == 2


def test_feedback_that_comes_later_is_added_and_keeps_the_id() -> None:
    before, after = (join(raw_lines(logs)).triple for logs in (LOGS[:5], LOGS))
    assert before is not None
    assert after is not None
    first, second = point_of(before, historical=NO_HISTORY), point_of(after, historical=NO_HISTORY)
    assert first.id == second.id
    assert [item.name for item in second.feedback] == ["accepted", "thumb"]
    assert (first.provenance.human_reviewed, second.provenance.human_reviewed) == (False, True)


def test_another_tenant_task_agent_or_content_is_another_point() -> None:
    base = [routing("t"), execution("t"), evaluation("t")]
    agent = [{**base[0], "selectedAgentId": "b"}, {**base[1], "agentId": "b"}, {**base[2], "agentId": "b"}]
    variants = [
        base,
        agent,
        [{**base[0], "tenantId": "umbrella"}, *base[1:]],
        [base[0], {**base[1], "tokensUsed": 91}, base[2]],
    ]
    triples = [join(raw_lines(logs)).triple for logs in variants]
    assert len({point_of(triple, historical=NO_HISTORY).id for triple in triples if triple}) == 4


def test_the_outcome_is_success_partial_or_failure() -> None:
    outcomes = []
    executions: list[dict[str, Any]] = [{}, {"success": False, "partialSuccess": True}, {"success": False}]
    for done in executions:
        triple = join(raw_lines([routing("t"), execution("t", **done), evaluation("t")])).triple
        assert triple is not None
        outcomes.append(point_of(triple, historical=NO_HISTORY).rl_labels.final_outcome)
    assert outcomes == ["success", "partial", "failure"]
