"""When an agent is asked again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.running.refinement import halt_score, with_feedback
from tests.fakes import benchmark_task

Qualities = st.lists(st.floats(0, 1), min_size=1, max_size=3)


@given(Qualities, st.integers(0, 10_000), st.integers(-10_000, 10_000))
def test_a_halt_score_is_between_the_best_quality_and_one(qualities: list[float], tokens: int, remaining: int) -> None:
    assert max(qualities) - 1e-9 <= halt_score(qualities, tokens=tokens, remaining=remaining) <= 1


@given(Qualities, st.integers(1, 1_000), st.integers(0, 1_000), st.integers(0, 1_000))
def test_less_that_is_left_never_speaks_for_going_on(
    qualities: list[float], tokens: int, remaining: int, more: int
) -> None:
    with_more = halt_score(qualities, tokens=tokens, remaining=remaining + more)
    assert with_more <= halt_score(qualities, tokens=tokens, remaining=remaining)


@pytest.mark.parametrize(
    ("qualities", "tokens", "remaining", "score"),
    [
        ([0.3], 100, 400, 0.3),
        ([0.3], 100, 50, 0.65),
        ([0.3], 100, 0, 1.0),
        ([0.3, 0.6], 100, 400, 0.6),
        ([0.3, 0.325], 100, 400, 1 - 0.675 * 0.5),
        ([0.6, 0.6], 100, 400, 1.0),
        ([0.6, 0.4], 100, 400, 1.0),
    ],
)
def test_the_score_says_what_its_formula_says(
    qualities: list[float], tokens: int, remaining: int, score: float
) -> None:
    assert halt_score(qualities, tokens=tokens, remaining=remaining) == pytest.approx(score)


def test_a_benchmarks_task_stays_one_with_its_conversation_grown() -> None:
    task = benchmark_task()
    grown = with_feedback(task, "No.", "Yes.")
    assert type(grown) is type(task)
    assert [message.role for message in grown.question] == ["user", "assistant", "user"]
    assert grown.text == "Yes."
