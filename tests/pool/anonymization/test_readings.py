"""A text of a record is read as if it were alone, and one that comes again is not read again."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.pool.anonymization import readings
from flywheel.pool.anonymization.canaries import CANARIES
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.edge import find_at_edge
from flywheel.pool.anonymization.own_types import OwnType
from flywheel.pool.anonymization.readings import (
    SHORTEST_REMEMBERED,
    Memory,
    Reading,
    apart,
    read_together,
    together,
)
from flywheel.pool.anonymization.spans import find_each
from flywheel.pool.anonymization.views import joined_views
from tests.pool.anonymization.test_detectors import PIECES

TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), max_size=4)
OWN = Detection((OwnType(name="EMPLOYEE", pattern=r"emp-\d+", words=("badge",)),))


@given(TEXTS)
@example(["her pesel:", "44051401359", "my name is", "Ann Lee", "-----BEGIN PRIVATE KEY-----", "abc"])
@example(["the NHS number", "943 476 5919"])
@example(["password =", "hunter2hunter2", "| name |", "| --- |", "| Bob |"])
@example(["Hallo Xavo", "Hallo Xavo ", "hello"])
@example(['{"a": "\\u0000", "b": "name,email\\nBob Smith,none"}', "one\ntwo\nthree\nfour"])
def test_a_text_is_read_as_if_it_were_alone(texts: list[str]) -> None:
    assert apart(read_together(texts), len(texts)) == [read_together([text]) for text in texts]


def test_words_of_a_type_of_the_teams_own_are_those_of_the_same_text() -> None:
    texts = ["badge", "emp-12345", "badge emp-12345"]
    alone = [read_together([text], detection=OWN) for text in texts]
    assert apart(read_together(texts, detection=OWN), len(texts)) == alone
    assert together(alone) == read_together(texts, detection=OWN)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^emp\d+",
        r"emp\d+$",
        r"\semp\d+",
        r"\W+emp\d+",
        r"emp\d+\s",
        r"emp[^x]+",
        r"(?s).emp\d",
        r"[[:space:]]emp\d",
        r"\bemp\d+\b",
        r".emp\d+",
        r"(?i:[A-Z-]{3}\d)",
    ],
)
def test_a_type_of_the_teams_own_sees_neither_the_text_before_nor_the_one_behind(pattern: str) -> None:
    detection = Detection((OwnType(name="EMPLOYEE", pattern=pattern),))
    texts = ["hello", "emp123", "the emp456", "emp789 left"]
    alone = [read_together([text], detection=detection) for text in texts]
    assert apart(read_together(texts, detection=detection), len(texts)) == alone
    assert any(one.closed for one in alone) or "\\s" in pattern


def test_no_view_has_the_character_that_parts_them() -> None:
    for text in ("a\0b", '{"a": "\\u0000"}', r'"{\"a\": \"\\u0000\"}"'):
        assert "\0" not in joined_views([text])[1]


class Counting:
    """Reads, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str], *, detection: Detection) -> Reading:
        self.asked += texts
        return read_together(texts, detection=detection)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """In place of reading."""
    reading = Counting()
    monkeypatch.setattr(readings, "read_together", reading)
    return reading


LONG = [f"{number}: mail ann{number}@example.org about {word}. " * 3 for number, word in enumerate(("one", "two"))]


def test_a_text_that_came_twice_is_not_read_again(counting: Counting) -> None:
    memory = Memory(DEFAULT)
    for _ in range(2):
        memory.read_together([*LONG, "short"])
    counting.asked.clear()
    texts = ["short", LONG[1], "other", LONG[0]]
    assert memory.read_together(texts) == read_together(texts)
    assert counting.asked == ["short", "other"]


def test_what_was_not_asked_for_the_longest_is_forgotten_first(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{number} ".ljust(SHORTEST_REMEMBERED, "x") for number in range(4)]
    monkeypatch.setattr(readings, "REMEMBERED", 3 * SHORTEST_REMEMBERED)
    memory = Memory(DEFAULT)
    for number in (0, 0, 1, 1, 2, 2, 0, 3, 3):
        memory.read_together([texts[number]])
    counting.asked.clear()
    for number in (0, 2, 3, 1):
        memory.read_together([texts[number]])
    assert counting.asked == [texts[1]]


def test_what_is_too_long_to_be_remembered_drives_nothing_out(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "LONGEST_REMEMBERED", len(LONG[0]))
    memory = Memory(DEFAULT)
    longer = "y" * (len(LONG[0]) + 1)
    for text in (LONG[0], LONG[0], longer, longer, longer, LONG[0]):
        memory.read_together([text])
    assert counting.asked == [LONG[0], LONG[0], longer, longer, longer]


def test_with_a_memory_every_record_has_the_spans_that_it_has_without() -> None:
    dice = random.Random(5)
    memory = Memory(DEFAULT)
    texts = [*CANARIES.values(), *LONG, "Ann Smith writes.", "dob: 1990-01-02, born in Rome, 1990-01-02 again" * 2]
    for _ in range(40):
        record = dice.sample(texts, k=dice.randint(0, 6))
        assert find_each(record, memory=memory) == find_each(record)


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("Thanks. What is your NHS number, please? ", "943 476 5919", "UK_NHS"),
        ("Proszę o PESEL", "44051401359, dziękuję", "PL_PESEL"),
        ("Wat is uw burgerservicenummer?", "111222333", "NL_BSN"),
    ],
)
@pytest.mark.parametrize("length", [0, SHORTEST_REMEMBERED])
def test_an_answer_is_known_by_the_text_that_asks_for_it(question: str, answer: str, kind: str, length: int) -> None:
    texts = ["Hello.", question.rjust(length), answer.ljust(length), "Thank you."]
    assert [span.type for span in find_each(texts)[2]] == [kind]
    assert [span.type for span in find_at_edge(texts)[2]] == [kind]
    memory = Memory(DEFAULT)
    assert find_each([texts[2]], memory=memory) == [[]]
    assert find_each(texts, memory=memory) == find_each(texts, memory=memory) == find_each(texts)
