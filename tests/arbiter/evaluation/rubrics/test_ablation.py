"""What a term does to rewards: counted on answers of which it can be said by hand, and against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from flywheel.arbiter.evaluation.rubrics.ablation import ScoredAnswer, TermEffect, ablate, correlation, ranks
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import SCORES, TERMS, Rubric
from flywheel.records import RubricScores

SHARES = st.floats(0, 1).map(lambda share: round(share, 3))
RUBRIC = Rubric.model_validate(
    BUILTIN.model_dump()
    | {"id": "plain", "rows": [], "otherwise": {"format": 0.25, "tool": 0.25, "task": 0.5, "minimal": 0, "cost": 0}}
)


def answer(group: str = "g", *, success: bool = True, task_type: str = "research", **scores: float) -> ScoredAnswer:
    given_scores = RubricScores(**{**dict.fromkeys(map(str, SCORES), 1.0), **scores})
    reward = RUBRIC.overall(task_type, given_scores)
    return ScoredAnswer(task_type=task_type, group=group, scores=given_scores, reward=reward, success=success)


def effects(answers: list[ScoredAnswer], how: str = "drop", threshold: float = 0.8) -> dict[str, TermEffect]:
    (found,) = ablate(answers, RUBRIC, how=how, threshold=threshold)  # type: ignore[arg-type]
    return {effect.term: effect for effect in found.terms}


def test_dropping_shares_the_weight_out_and_zeroing_does_not() -> None:
    answers = [answer(task=0.0), answer(task=1.0)]
    assert effects(answers)["task"].mean_reward_change == pytest.approx(0.25)  # 1 and 1 beside ½ and 1
    assert effects(answers, "zero")["task"].mean_reward_change == pytest.approx(-0.25)  # ½ and ½
    assert effects(answers)["cost"].mean_reward_change == 0


def test_orderings_within_a_group_are_kept_reversed_or_lost() -> None:
    answers = [answer("a", task=1.0, tool=0.0), answer("a", task=0.0, tool=1.0), answer("b"), answer("b", task=0.5)]
    found = effects(answers)
    assert (found["task"].orderings, found["task"].orderings_reversed, found["task"].orderings_lost) == (2, 1, 1)
    assert (found["tool"].orderings_reversed, found["tool"].orderings_lost) == (0, 0)
    assert found["task"].silent_groups == 1
    assert found["tool"].silent_groups == 0


def test_answers_to_different_tasks_have_no_order() -> None:
    assert effects([answer("a"), answer("b", task=0.0)])["task"].orderings == 0


def test_the_shares_of_the_spread_say_what_is_learned_and_sum_to_one() -> None:
    found = effects([answer(tool=0.0, task=0.9), answer(tool=1.0, task=1.0)])
    shares = [found[term].spread_share for term in TERMS]
    assert shares == pytest.approx([0, 0.25 / 0.3, 0.05 / 0.3, 0, 0])
    assert effects([answer("a"), answer("b", task=0.0)])["task"].spread_share is None


def test_the_gate_left_open_gives_unsafe_answers_their_reward_back() -> None:
    found = effects([answer(safety=0.0), answer()])
    assert found["safety"].mean_reward_change == pytest.approx(0.5)
    assert (found["safety"].decisions_changed, found["safety"].weight) == (1, None)
    assert found["safety"].orderings_lost == 1


def test_decisions_are_counted_at_the_threshold() -> None:
    answers = [answer(task=0.5), answer(task=0.7)]  # 0.75 and 0.85
    assert effects(answers, threshold=0.8)["task"].decisions_changed == 1
    assert effects(answers, threshold=0.1)["task"].decisions_changed == 0


def test_a_term_that_contradicts_the_outcome_shows() -> None:
    answers = [answer(tool=0.0), answer(task=0.4, success=False), answer(task=0.6, success=False)]
    (whole,) = ablate(answers, RUBRIC)
    found = {effect.term: effect.outcome_correlation for effect in whole.terms}
    assert whole.outcome_correlation is not None
    assert found["tool"] is not None
    assert found["tool"] > whole.outcome_correlation
    assert found["task"] is not None
    assert found["task"] < 0


def test_each_task_type_is_judged_by_its_own_weights_the_largest_first() -> None:
    found = ablate([answer(task_type="planning"), answer(task_type="research"), answer(task_type="research")], BUILTIN)
    assert [one.task_type for one in found] == ["research", "planning"]
    assert [one.terms[3].weight for one in found] == [0.05, 0.0]


def test_answers_that_another_rubric_scored_are_counted() -> None:
    (one,) = ablate([answer(task=0.5), answer()], BUILTIN)
    assert one.scored_otherwise == 1  # a perfect answer is 1 by any rubric


ANSWERS = st.lists(
    st.builds(
        lambda group, success, values: answer(group, success=success, **dict(zip(SCORES, values, strict=True))),
        st.sampled_from("abc"),
        st.booleans(),
        st.tuples(*(SHARES,) * len(SCORES)),
    ),
    min_size=1,
    max_size=30,
)


@given(answers=ANSWERS)
def test_counts_are_within_what_they_count(answers: list[ScoredAnswer]) -> None:
    (found,) = ablate(answers, RUBRIC)
    for effect in found.terms:
        assert 0 <= effect.orderings_reversed + effect.orderings_lost <= effect.orderings
        assert found.silent_groups <= found.groups
        assert 0 <= effect.decisions_changed <= found.answers == len(answers)
        assert effect.orderings_reversed == 0 or effect.weight != 0
    shares = [effect.spread_share for effect in found.terms[:-1]]
    assert shares[0] is None or sum(share or 0.0 for share in shares) == pytest.approx(1)


@given(values=st.lists(st.tuples(SHARES, SHARES), min_size=3, max_size=40))
def test_rank_correlation_is_scipys(values: list[tuple[float, float]]) -> None:
    one, other = (np.array(column) for column in zip(*values, strict=True))
    ours = correlation(ranks(one), ranks(other))
    if ours is None:
        assert len(set(one)) == 1 or len(set(other)) == 1
    else:
        assert ours == pytest.approx(float(spearmanr(one, other).statistic), abs=1e-9)
