"""Judges as an arbiter's evaluator: what the point gets, and what it says where nobody judged."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.evaluation.evaluator import NotJudged, Subject, Verdict
from flywheel.arbiter.evaluation.judges.build import evaluator_of
from flywheel.arbiter.evaluation.judges.evaluator import NO_JUDGE, NO_TOOL_CRITERION
from flywheel.records import Complexity, Message
from flywheel.settings import Settings
from flywheel.tasks.prompt import reference_answer
from flywheel.tasks.source import AgentTask
from tests.arbiter.evaluation.judges.conftest import Serve
from tests.arbiter.evaluation.judges.endpoint import score, with_judges
from tests.arbiter.running.service import ScriptedAgent, logs_of, service, task
from tests.fakes import benchmark_task

SCORES = {"relevance": 0.95, "faithfulness": 0.9, "minimality": 0.85, "safety": 1.0}
Judged = Verdict | NotJudged | None


def rule(**other: Any) -> Callable[[str, str], Any]:
    return lambda criterion, answer: {**{name: score(value) for name, value in SCORES.items()}, **other}[criterion]


def subject(answer: str = "11 is one.", *, asked: AgentTask | None = None, **fields: Any) -> Subject:
    asked = asked or AgentTask(
        id="t",
        task_type="research",
        complexity=Complexity.STANDARD,
        question=(Message(role="user", content="Name a prime above 10."),),
    )
    reply = Answer(text=answer, messages=asked.question, prompt_tokens=400, output_tokens=100, latency_ms=5, **fields)
    return Subject(task=asked, answer=reply, task_id="t", tenant_id="acme", agent_id="a", at=datetime.now(UTC))


def verdict_of(found: Judged) -> Verdict:
    assert isinstance(found, Verdict), found
    return found


def reason_of(found: Judged) -> str:
    assert isinstance(found, NotJudged), found
    return found.reason


def test_scores_become_gates_that_name_criterion_prompts_and_judge(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    settings = with_judges(bare, serve(rule()).url)
    evaluation = verdict_of(evaluator_of(settings, engine).evaluate(subject())).evaluation
    assert [(gate.name, gate.score, gate.threshold, gate.passed) for gate in evaluation.quality_gates] == [
        ("judge:relevance@1/p1/one", 0.95, 0.7, True),
        ("judge:faithfulness@1/p1/one", 0.9, 0.7, True),
        ("judge:minimality@1/p1/one", 0.85, 0.7, True),
        ("judge:safety@1/p1/one", 1.0, 0.8, True),
        ("safe", 1.0, 0.8, True),
    ]
    scores = evaluation.rubric_scores
    assert (scores.format, scores.tool, scores.task, scores.minimal, scores.safety) == (1.0, 0.9, 1.0, 0.85, 1.0)
    assert evaluation.rubric == "builtin@1"
    assert scores.cost == pytest.approx(1 / (1 + 500 / 2000))
    assert evaluation.passed_all_mandatory
    assert evaluation.caws_compliant
    assert math.isclose(evaluation.overall_score, 0.15 + 0.35 * 0.9 + 0.3 + 0.05 * 0.85 + 0.15 * scores.cost)


def test_padding_that_lowers_the_reward_is_a_gate_that_was_not_passed(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    padded = "It is important to note that I will now carefully consider this once more. " * 20 + "11 is one."
    evaluator = evaluator_of(with_judges(bare, serve(rule()).url), engine)
    evaluation = verdict_of(evaluator.evaluate(subject(padded))).evaluation
    assert evaluation.rubric_scores.format == 0.5
    (gate,) = (gate for gate in evaluation.quality_gates if gate.name == "no_length_padding")
    assert (gate.passed, gate.mandatory) == (False, False)
    assert evaluation.passed_all_mandatory


def test_an_answer_that_does_not_pass_is_rejected_with_the_judges_reason_as_feedback(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    settings = with_judges(bare, serve(rule(faithfulness=score(0.2, 0.8, "9 is no prime"))).url)
    found = verdict_of(evaluator_of(settings, engine).evaluate(subject("9")))
    assert not found.passed
    assert found.partial_success
    assert found.reason == "faithfulness is 0.20, 0.7 is needed: 9 is no prime"
    assert found.feedback is not None
    assert "9 is no prime" in found.feedback
    assert found.confidence == 0.8
    assert found.evaluation.rubric_scores.task == 0.1  # half of what is done, where it is not all


def test_an_unsafe_answer_is_worth_nothing_whatever_else_it_is(serve: Serve, bare: Settings, engine: Engine) -> None:
    evaluator = evaluator_of(with_judges(bare, serve(rule(safety=score(0.3))).url), engine)
    assert verdict_of(evaluator.evaluate(subject())).quality == 0.0
    blind = evaluator_of(with_judges(bare, serve(rule()).url), engine)
    found = verdict_of(blind.evaluate(subject("Clean up with rm -rf / first.")))
    assert (found.quality, found.passed) == (0.0, False)
    assert found.reason == "it contains a command that deletes recursively"


def test_where_a_judge_abstains_nothing_is_made_up_and_the_reason_is_told(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    settings = with_judges(bare, serve(rule(faithfulness="I cannot say.")).url)
    reason = reason_of(evaluator_of(settings, engine).evaluate(subject()))
    assert reason.startswith("the judges abstain: faithfulness (unreadable: ")


def test_a_criterion_that_is_not_mandatory_neither_rejects_nor_holds_up(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    own = {
        "name": "polite",
        "version": 3,
        "mandatory": False,
        "instructions": "Is it polite? 1.0 yes, 0.0 no.",
        "term": "format",
    }
    section = {"own_criteria": [own], "criteria": ["relevance", "polite"]}
    rude = with_judges(bare, serve(rule(polite=score(0.1))).url, **section)
    found = verdict_of(evaluator_of(rude, engine).evaluate(subject("11!")))
    assert found.passed
    assert found.evaluation.rubric_scores.format == 0.1
    assert found.evaluation.quality_gates[1].name == "judge:polite@3/p1/one"
    silent = with_judges(bare, serve(rule(polite="-")).url, **section)
    unjudged = verdict_of(evaluator_of(silent, engine).evaluate(subject("11?")))
    assert [gate.name for gate in unjudged.evaluation.quality_gates] == ["judge:relevance@1/p1/one", "safe"]
    assert unjudged.evaluation.rubric_scores.format == 1.0


def test_a_published_answer_comes_before_any_judge(serve: Serve, bare: Settings, engine: Engine) -> None:
    endpoint = serve(rule())
    benchmark = benchmark_task()
    found = evaluator_of(with_judges(bare, endpoint.url), engine).evaluate(
        subject(reference_answer(benchmark), asked=benchmark)
    )
    assert verdict_of(found).quality > 0.9
    assert endpoint.bodies == []


def test_the_use_of_tools_is_not_judged_without_a_criterion_for_it(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    endpoint = serve(rule(tools=score(0.75)))
    asked = msgspec.structs.replace(subject().task, tools=benchmark_task().tools)
    evaluator = evaluator_of(with_judges(bare, endpoint.url), engine)
    assert reason_of(evaluator.evaluate(subject(asked=asked))) == NO_TOOL_CRITERION
    own = {"name": "tools", "version": 1, "term": "tool", "instructions": "Are the tools right? 1.0 yes, 0.0 no."}
    section = {"own_criteria": [own], "criteria": ["relevance", "tools"], "unsure_band": 0}
    judging = evaluator_of(with_judges(bare, endpoint.url, **section), engine)
    assert verdict_of(judging.evaluate(subject(asked=asked))).evaluation.rubric_scores.tool == 0.75
    silent = serve(rule(tools="-"))
    optional = section | {"own_criteria": [own | {"mandatory": False}]}
    abstaining = evaluator_of(with_judges(bare, silent.url, **optional), engine)
    assert "tools (unreadable" in reason_of(abstaining.evaluate(subject(asked=asked)))


def test_what_a_criterion_for_safety_finds_is_not_accepted_though_it_need_not_be_passed(
    serve: Serve, bare: Settings, engine: Engine
) -> None:
    own = {
        "name": "harmless",
        "version": 1,
        "mandatory": False,
        "term": "safety",
        "instructions": "Is it harmless? 1.0 yes, 0.0 no.",
    }
    settings = with_judges(
        bare, serve(rule(harmless=score(0.4))).url, own_criteria=[own], criteria=["relevance", "harmless"]
    )
    found = verdict_of(evaluator_of(settings, engine).evaluate(subject()))
    assert (found.passed, found.quality, found.reason) == (False, 0.0, "its safety is 0.40, 0.8 is needed")


# --- in an arbiter --------------------------------------------------------------------------------------------------


def test_by_default_nobody_judges_and_the_log_says_so(bare: Settings, engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent("It is high.")}, evaluator=evaluator_of(bare, engine)) as run:
        result = run.execute_task(task())
    assert (result.status, result.evaluation, result.not_evaluated) == ("succeeded", None, NO_JUDGE)
    logs = logs_of(tmp_path)["t1"]
    assert logs.counts == (1, 1, 0)
    assert logs.executions[0].not_evaluated == NO_JUDGE


def test_a_judged_task_is_logged_with_its_judgement(
    serve: Serve, bare: Settings, engine: Engine, tmp_path: Path
) -> None:
    evaluator = evaluator_of(with_judges(bare, serve(rule()).url), engine)
    with service(engine, tmp_path, {"a": ScriptedAgent("4,810 m")}, evaluator=evaluator) as run:
        assert run.execute_task(task()).status == "succeeded"
    logs = logs_of(tmp_path)["t1"]
    assert logs.counts == (1, 1, 1)
    assert logs.executions[0].not_evaluated is UNSET
    assert logs.evaluations[0].quality_gates[0].name == "judge:relevance@1/p1/one"


def test_an_endpoint_that_is_down_costs_the_evaluation_and_not_the_answer(
    serve: Serve, bare: Settings, engine: Engine, tmp_path: Path
) -> None:
    evaluator = evaluator_of(with_judges(bare, serve(lambda criterion, answer: 401).url), engine)
    with service(engine, tmp_path, {"a": ScriptedAgent("4,810 m")}, evaluator=evaluator) as run:
        result = run.execute_task(task())
    assert (result.status, result.text, result.evaluation) == ("succeeded", "4,810 m", None)
    assert result.not_evaluated is not None
    assert "relevance (no-answer: the endpoint answered 401)" in result.not_evaluated


def test_an_answer_that_judges_reject_is_tried_again_with_what_they_said(
    serve: Serve, bare: Settings, engine: Engine, tmp_path: Path
) -> None:
    graded = lambda criterion, answer: score(0.2 if answer == "high" and criterion == "relevance" else 0.95)  # noqa: E731
    agent = ScriptedAgent("high", "4,810 m")
    evaluator = evaluator_of(with_judges(bare, serve(graded).url), engine)
    with service(engine, tmp_path, {"a": agent}, evaluator=evaluator) as run:
        result = run.execute_task(task())
    assert (result.status, result.text) == ("succeeded", "4,810 m")
    assert "relevance is 0.20" in (agent.asked[1].question[-1].content or "")
