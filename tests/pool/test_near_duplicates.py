"""Which texts say almost the same."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.pool.near_duplicates import CHUNK, SIMILARITY, near_duplicates, signatures_of

WORDS = [f"word{number}" for number in range(2_000)]


def left_out(texts: list[str]) -> set[int]:
    return near_duplicates(signatures_of(texts))


def prose(chance: random.Random, words: int = 120) -> list[str]:
    return chance.choices(WORDS, k=words)


@given(st.lists(st.text(max_size=40), max_size=30))
@settings(max_examples=60)
def test_no_two_kept_texts_are_the_same_and_one_of_each_stays(texts: list[str]) -> None:
    gone = left_out(texts)
    kept = [text for number, text in enumerate(texts) if number not in gone]
    assert len(kept) == len(set(kept))
    assert bool(kept) == bool(texts)


@given(st.integers(0, 10_000), st.integers(2, 40))
@settings(max_examples=20)
def test_the_earlier_of_two_near_texts_stays(seed: int, others: int) -> None:
    chance = random.Random(seed)
    words = prose(chance)
    changed = [*words]
    changed[chance.randrange(len(words))] = "else"
    texts = [" ".join(words), *(" ".join(prose(chance)) for _ in range(others)), " ".join(changed)]
    assert left_out(texts) == {others + 1}


def test_pairs_over_the_threshold_are_found_and_none_far_below() -> None:
    chance = random.Random(1)

    def pairs(changes: int) -> list[str]:
        texts = []
        for _ in range(200):
            words = prose(chance)
            changed = [*words]
            for place in range(changes):
                changed[place * len(words) // changes] = f"other{chance.randrange(10**9)}"
            texts += [" ".join(words), " ".join(changed)]
        return texts

    assert SIMILARITY < 108 / 132  # four changes: 12 of 120 shingles differ on each side
    assert len(left_out(pairs(4))) > 110  # as often as not the estimate is a little lower
    assert len(left_out(pairs(2))) == 200
    assert left_out(pairs(20)) == set()


def test_a_symbol_makes_a_difference_and_layout_none() -> None:
    assert left_out(["3 + 4", "3 - 4", "3 + 5"]) == set()
    assert left_out(["What is 3 + 4?", "what  is\n3+4 ?"]) == {1}


def test_chinese_is_compared_by_character() -> None:
    text = "".join(chr(0x4E00 + number * 7 % 3000) for number in range(200))
    assert left_out([text, text[:100] + "一" + text[101:]]) == {1}
    assert left_out([text, text[::-1]]) == set()


def test_a_text_has_the_same_signature_whatever_stands_beside_it() -> None:
    chance = random.Random(2)
    texts = [" ".join(prose(chance, words=words)) for words in (0, 1, 2, 3, 50, 5_000, 70_000)]
    assert max(map(len, texts)) > 2 * CHUNK
    together = signatures_of(texts)
    for number, text in enumerate(texts):
        assert np.array_equal(signatures_of([text])[0], together[number])


def test_ten_thousand_copies_are_one_text() -> None:
    assert len(left_out(["the same text as the others"] * 10_000)) == 9_999


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n"]])
def test_texts_without_words_are_one_text(texts: list[str]) -> None:
    assert len(left_out(texts)) == max(len(texts) - 1, 0)


def test_texts_of_different_groups_are_not_compared() -> None:
    text = " ".join(prose(random.Random(3)))
    table = signatures_of([text, text, text, f"{text} more", f"{text} more"])
    assert near_duplicates(table, np.array([1, 2, 1, 2, 3], dtype=np.uint64)) == {2, 3}
