"""Evaluations that come after the result."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.evaluation.evaluator import Subject
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.running.late import NotJudgeableError
from flywheel.collection.collector import utc_now
from flywheel.records import Evaluation
from tests.arbiter.running.service import ScoreReader, ScriptedAgent, broken, logs_of, service, task
from tests.arbiter.test_arbiter import check_gates


def verdict_of(score: float) -> Evaluation:
    """What a reviewer says, by the same rules as the evaluator of these tests."""
    answer = Answer(text=f"{score}", messages=(), prompt_tokens=0, output_tokens=0, latency_ms=1.0)
    subject = Subject(task=task().asked, answer=answer, task_id="?", tenant_id="?", agent_id="?", at=utc_now())
    verdict = ScoreReader().evaluate(subject)
    assert verdict is not None
    return verdict.evaluation


@pytest.mark.parametrize(("score", "status"), [(0.9, "succeeded"), (0.0, "failed")])
def test_a_late_evaluation_is_logged_learned_and_in_the_result(
    engine: Engine, tmp_path: Path, score: float, status: str
) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent("a poem")}) as arbiter:
        first = arbiter.execute_task(task())
        assert (first.status, first.evaluation) == ("succeeded", None)
        late = arbiter.record_evaluation("t1", verdict_of(score))
        second = arbiter.record_evaluation("t1", verdict_of(1 - score))
        stored = arbiter.execute_task(task())
    assert (late.status, stored.status, stored.evaluation) == (status, status, late.evaluation)
    assert (second.replayed, second.evaluation) == (True, late.evaluation)
    logs = logs_of(tmp_path)["t1"]
    assert logs.counts == (1, 1 if status == "succeeded" else 2, 1)
    check = logs.decisions[0], logs.executions[-1], logs.evaluations[0]
    assert check[1].success == (status == "succeeded")
    if status == "failed":
        check_gates(*check)
    known = BanditState(engine).evidence()["a", "research"]
    assert (known.tasks, known.quality_sum) == (1, score)


def test_what_is_judged_already_or_has_no_answer_is_not_judged(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": broken()}, evaluator=ScoreReader()) as arbiter:
        failed = arbiter.execute_task(task())
        assert arbiter.record_evaluation("t1", verdict_of(0.9)).evaluation == failed.evaluation
        with pytest.raises(NotJudgeableError, match="'t2' of 'acme' has no stored result"):
            arbiter.record_evaluation("t2", verdict_of(0.9))
    assert BanditState(engine).evidence()["a", "research"].quality_sum == 0
