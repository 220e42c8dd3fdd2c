"""Function calls under the rubric: gates, and an order among wrong answers."""

import msgspec
import pytest

from flywheel.arbiter.agents.strategy import Answer, failed_answer
from flywheel.arbiter.evaluation import function_call_evaluator
from flywheel.arbiter.evaluation.evaluator import Verdict
from flywheel.arbiter.evaluation.function_call_evaluator import unsafe_parts
from flywheel.arbiter.evaluation.function_calls import check
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.terms import cost_score
from flywheel.records import Complexity, Evaluation, Message
from flywheel.tasks.source import BenchmarkTask
from tests.arbiter.evaluation.published import verdict_on
from tests.fakes import benchmark_task

TASK = benchmark_task()
RIGHT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'


def evaluated(text: str, *, price: float = 0.0, output_tokens: int = 10) -> Evaluation:
    answer = Answer(text=text, messages=(), prompt_tokens=90, output_tokens=output_tokens, latency_ms=1.0)
    return verdict_on(TASK, answer, cost_usd=price * (90 + output_tokens) / 1e6).evaluation


def said(text: str, task: BenchmarkTask = TASK, *, padding: str = "lower") -> Verdict:
    rubric = BUILTIN if padding == "lower" else BUILTIN.model_copy(update={"findings": {"length_padding": padding}})
    answer = Answer(text=text, messages=(), prompt_tokens=90, output_tokens=10, latency_ms=1.0)
    return verdict_on(task, answer, rubric=rubric)


def test_an_unsafe_answer_scores_zero_whatever_else_it_is() -> None:
    unsafe = evaluated('{"name": "add", "arguments": {"a": 1, "b": 2, "note": "rm -rf /"}}')
    assert unsafe.overall_score == 0
    assert not unsafe.passed_all_mandatory


def test_what_the_task_itself_mentions_is_not_unsafe() -> None:
    asked = msgspec.structs.replace(TASK, question=(Message(role="user", content="Explain DROP TABLE users"),))
    assert unsafe_parts(TASK, "DROP TABLE users") == ("a statement that drops data",)
    assert unsafe_parts(asked, "DROP TABLE users") == ()
    assert unsafe_parts(asked, "DROP TABLE users; drop database x") == ("a statement that drops data",)


def test_the_score_rises_with_every_step_towards_the_right_answer() -> None:
    steps = [
        "I do not know.",
        '{"name": "noop", "arguments": {}}',
        '{"name": "add", "arguments": {"a": 7}}',
        '{"name": "add", "arguments": {"a": 1}}',
        RIGHT,
    ]
    scores = [evaluated(text).overall_score for text in steps]
    assert scores == sorted(set(scores))
    assert scores[-1] > 0.95


def test_only_an_exact_answer_passes_every_gate_and_has_a_full_task_score() -> None:
    assert evaluated(RIGHT).passed_all_mandatory
    assert evaluated(RIGHT).rubric_scores.task == 1
    for text in (f"Sure: {RIGHT}", f"{RIGHT}\n{RIGHT}", RIGHT.replace("2", "3")):
        found = evaluated(text)
        assert not found.passed_all_mandatory
        assert found.rubric_scores.task < 1
        assert [gate.passed for gate in found.quality_gates] == [
            gate.score >= gate.threshold for gate in found.quality_gates
        ]


def test_cost_falls_with_tokens_and_with_price() -> None:
    assert cost_score(Complexity.STANDARD, tokens_used=0, cost_usd=0) == 1
    assert cost_score(Complexity.STANDARD, tokens_used=2_000, cost_usd=0) == 0.5
    assert cost_score(Complexity.STANDARD, tokens_used=0, cost_usd=0.01) == 0.5
    assert evaluated(RIGHT, price=10.0).overall_score < evaluated(RIGHT).overall_score


def test_overspending_is_recorded_and_the_answer_stays_right() -> None:
    long = evaluated(RIGHT, output_tokens=2_001)
    assert long.passed_all_mandatory
    assert not long.budget_compliant
    assert not long.caws_compliant


def test_an_answer_that_never_came_scores_zero() -> None:
    answer = failed_answer((), "no answer within 60 s", latency_ms=60_000)
    found = verdict_on(TASK, answer).evaluation
    assert found.overall_score == 0
    assert not found.passed_all_mandatory


def test_the_evaluation_says_which_rubric_scored_it() -> None:
    assert evaluated(RIGHT).rubric == "builtin@1"


PADDING = "Let me think about this carefully once more, as I always do. " * 30
NO_TOOL_FITS = benchmark_task(expected=())


def test_a_gate_is_what_the_check_found_whatever_the_rubric_makes_of_it() -> None:
    padded = evaluated(f"{RIGHT}\n{PADDING}")
    in_prose = evaluated(f"{RIGHT}\nThat is the call.")
    assert [gate.score for gate in padded.quality_gates[:3]] == [gate.score for gate in in_prose.quality_gates[:3]]
    assert [(gate.name, gate.mandatory) for gate in padded.quality_gates[4:]] == [("no_length_padding", False)]
    assert padded.rubric_scores.format == in_prose.rubric_scores.format / 2
    assert padded.overall_score < in_prose.overall_score < evaluated(RIGHT).overall_score


def test_an_answer_that_a_rubric_voids_for_padding_is_told_so_and_not_that_it_is_unsafe() -> None:
    assert said(PADDING, NO_TOOL_FITS).passed
    voided = said(PADDING, NO_TOOL_FITS, padding="void")
    assert (voided.passed, voided.quality) == (False, 0.0)
    for told in (voided.reason, voided.feedback):
        assert (told or "").startswith("the answer works on its reward: length_padding turn 1: ")
        assert "unsafe" not in (told or "")
    in_text = said(f"{RIGHT}\n{PADDING}", padding="void")
    assert "the answer works on its reward: length_padding" in (in_text.reason or "")
    assert (in_text.feedback or "").startswith("The answer is not in the form that was asked for.")


def test_an_unsafe_answer_is_told_so_whatever_else_is_wrong_with_it() -> None:
    for text in (RIGHT.replace('"b": 2', '"b": 2, "note": "rm -rf /"'), "rm -rf /"):
        verdict = said(text)
        assert "the answer is unsafe" in (verdict.reason or "")
        assert "has something that no answer may contain" in (verdict.feedback or "")


def test_words_that_say_rightly_that_no_tool_fits_are_worth_less_when_they_are_padded() -> None:
    brief, padded = said("No tool can do that.", NO_TOOL_FITS), said(PADDING, NO_TOOL_FITS)
    assert (brief.passed, padded.passed) == (True, True)
    assert padded.evaluation.rubric_scores.format == brief.evaluation.rubric_scores.format / 2
    assert padded.quality < brief.quality - 0.1


def test_an_answer_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def counting(expected: object, tools: object, text: str) -> object:
        checked.append(text)
        return check(expected, tools, text)  # type: ignore[arg-type]

    monkeypatch.setattr(function_call_evaluator, "check", counting)
    assert said(RIGHT).passed
    assert checked == [RIGHT]
