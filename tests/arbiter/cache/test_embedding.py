"""Texts as vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.cache.embedding import DIMENSIONS, hashed_ngrams

ASKED = "Which papers of the last year cite the article on contextual bandits, and what do they say of it?"


@given(st.text())
def test_a_vector_has_length_one_unless_nothing_is_said(text: str) -> None:
    vector = hashed_ngrams(text)
    assert vector.shape == (DIMENSIONS,)
    assert vector.dtype == np.float32
    length = float(np.linalg.norm(vector))
    assert length == 0 or length == pytest.approx(1, abs=1e-5)
    if any(character.isalnum() for character in text):
        assert length > 0


def test_symbols_that_mean_something_make_a_difference() -> None:
    assert float(hashed_ngrams("How old is C++?") @ hashed_ngrams("How old is C?")) < 0.95


def test_case_spaces_and_punctuation_make_no_difference() -> None:
    assert np.array_equal(hashed_ngrams("What is  a bandit?"), hashed_ngrams("what is a bandit"))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        (ASKED.replace("papers", "paper"), 0.95, 1.0),
        (f"Please: {ASKED}", 0.95, 1.0),
        (ASKED.replace("last year", "last century"), 0.7, 0.95),
        ("How do I bake bread without yeast in an oven that is too cold?", -0.1, 0.3),
    ],
)
def test_what_is_asked_alike_is_near_and_what_is_not_is_far(text: str, least: float, most: float) -> None:
    assert least <= float(hashed_ngrams(ASKED) @ hashed_ngrams(text)) < most


def test_a_long_text_takes_no_longer_than_its_bound() -> None:
    long = "word " * 1_000_000
    vector = hashed_ngrams(long)
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(vector, hashed_ngrams(long[: len(long) // 2] + "what nobody reads " + long[len(long) // 2 :]))
    assert not np.array_equal(vector, hashed_ngrams(long + "how it ends"))
