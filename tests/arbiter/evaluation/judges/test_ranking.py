"""Ranking a group of answers by comparing pairs."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.judges.build import judge_of
from flywheel.arbiter.evaluation.judges.criteria import built_in
from flywheel.arbiter.evaluation.judges.opinions import Abstention
from flywheel.arbiter.evaluation.judges.ranking import JudgeComparer, Match, Ranking, rank, strengths
from flywheel.arbiter.evaluation.judges.replies import Better, Choice
from flywheel.settings import Settings
from tests.arbiter.evaluation.judges.conftest import Serve
from tests.arbiter.evaluation.judges.endpoint import PAIR, choice, with_judges

Rule = Callable[[str, str], Better | None]
GROUPS = st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=8)


class Ruled:
    """Compares by a rule; None is an abstention."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.pairs: list[tuple[str, str]] = []

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Choice | Abstention]:
        self.pairs += pairs
        return [self._said(self.rule(*pair)) for pair in pairs]

    @staticmethod
    def _said(better: Better | None) -> Choice | Abstention:
        if better is None:
            return Abstention(kind="no-answer", reason="no answer within 5 s")
        return Choice(better=better, confidence=1.0, reason="so")


def longer(first: str, second: str) -> Better:
    return "first" if len(first) > len(second) else "second" if len(second) > len(first) else "tie"


def lexical(first: str, second: str) -> Better:
    return "first" if first > second else "second"


def scores(found: Ranking) -> list[float]:
    assert None not in found.scores
    return [score for score in found.scores if score is not None]


def test_the_better_answer_has_the_higher_score_and_their_mean_is_a_half() -> None:
    found = scores(rank(["aa", "aaaa", "a", "aaa"], Ruled(longer)))
    assert sorted(found) == [found[2], found[0], found[3], found[1]]
    assert sum(found) / 4 == pytest.approx(0.5)
    assert min(found) + max(found) == pytest.approx(1.0)


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_the_answers_makes_no_difference(answers: list[str], random: Random) -> None:
    places = list(range(len(answers)))
    random.shuffle(places)
    straight = rank(answers, Ruled(longer)).scores
    shuffled = rank([answers[place] for place in places], Ruled(longer)).scores
    assert shuffled == pytest.approx([straight[place] for place in places], abs=1e-6)


@given(GROUPS)
def test_a_consistent_judge_is_followed_in_every_pair(answers: list[str]) -> None:
    found = scores(rank(answers, Ruled(lexical)))
    for one, its in zip(answers, found, strict=True):
        for other, others in zip(answers, found, strict=True):
            assert (its > others + 1e-9) == (one > other)
    assert all(0 < score < 1 for score in found)


@given(GROUPS, st.sampled_from(["first", "second"]))
def test_a_judge_that_prefers_a_place_prefers_nobody(answers: list[str], place: Better) -> None:
    found = rank(answers, Ruled(lambda first, second: place))
    assert scores(found) == pytest.approx([0.5] * len(answers))
    different = [match for match in found.matches if answers[match.first] != answers[match.second]]
    assert all(match.swayed for match in different)
    assert found.swayed_fraction == pytest.approx(len(different) / len(found.matches))


def test_each_pair_is_shown_in_both_orders_and_equal_answers_are_not_shown() -> None:
    comparer = Ruled(longer)
    rank(["a", "bb", "a"], comparer)
    assert sorted(comparer.pairs) == [("a", "bb"), ("bb", "a")]


def test_a_pair_without_both_comparisons_counts_for_nobody() -> None:
    found = rank(["a", "bb", "ccc"], Ruled(lambda one, two: None if (one, two) == ("a", "bb") else longer(one, two)))
    assert found.abstained == 1
    a, b, c = scores(found)
    assert c > b == pytest.approx(a)


def test_who_was_compared_with_none_has_no_score() -> None:
    found = rank(["a", "bb", "ccc"], Ruled(lambda one, two: None if "a" in (one, two) else longer(one, two)))
    assert found.scores[0] is None
    assert found.scores[2] is not None
    assert found.scores[2] > 0.5
    silent = rank(["a", "bb"], Ruled(lambda one, two: None))
    assert (silent.scores, silent.swayed_fraction) == ((None, None), None)


def test_one_answer_alone_has_no_score() -> None:
    assert rank(["a"], Ruled(longer)).scores == (None,)


def test_missing_pairs_do_not_favour_who_met_weak_opponents() -> None:
    """0 beats 1, 1 beats 2, 2 beats 3, and 3 met nobody else: shares of wins would put 0 and 1 beside each other."""
    won = [Match(first=i, second=i + 1, points=1.0) for i in range(3)]
    found = strengths(4, won)
    ranked = [score for score in found if score is not None]
    assert len(ranked) == 4
    assert all(left > right for left, right in pairwise(ranked))


def test_a_judge_behind_an_endpoint_is_shown_both_answers_between_marks(serve: Serve, bare: Settings) -> None:
    endpoint = serve(lambda criterion, answer: None)

    def prefer_longer(messages: list[dict[str, str]]) -> dict[str, str]:
        found = PAIR.search(messages[1]["content"])
        assert found is not None
        return choice(longer(found[2], found[3]))

    endpoint.reply = prefer_longer
    configured = with_judges(bare, endpoint.url)
    judge = judge_of(configured.judges.models[0], configured)
    comparer = JudgeComparer(judge, criterion=built_in()[0], task="Say a.", max_characters=100)
    found = rank(["a", "aaa", "aa", "x" * 200], comparer)
    assert found.scores[3] is None
    ranked = [score for score in found.scores if score is not None]
    assert ranked[1] > ranked[2] > ranked[0]
    assert len(endpoint.bodies) == 6
    assert endpoint.bodies[0]["response_format"]["json_schema"]["schema"]["properties"]["better"]["enum"] == [
        "first",
        "second",
        "tie",
    ]
