"""Several automata find what each form by itself would find, and what they leave out cannot be there."""

import random
import re
import time
from collections.abc import Iterator

import pytest
import re2
from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.pool.anonymization.automata import any_of
from flywheel.pool.anonymization.canaries import CANARIES
from flywheel.pool.anonymization.context import FINDERS
from flywheel.pool.anonymization.detectors import (
    EDGE,
    EVERYTHING,
    FOLDED,
    Detector,
    Span,
    bytewise,
    loosened,
)
from flywheel.pool.anonymization.form import Family, Form
from flywheel.pool.anonymization.forms import EDGE_FORMS, FAMILIES, FORMS, PATHS
from flywheel.pool.anonymization.views import View, views_of

PIECES = (
    *CANARIES.values(),
    *("Ann Lee", "my name is ", "Dr. ", "dob: ", "born ", "1990-01-02", "zip 90210", "12 Main St", "::1", "10.0.0.1"),
    *(
        "'first_name': '",
        '"',
        "'",
        ": ",
        "=",
        "{",
        "}",
        "\\",
        "\n",
        "\0",
        ",",
        ".",
        " ",
        "-",
        "_",
        "1",
        "é",
        "名",
        "card ",
    ),
    *(
        "Ich heiße ",
        "né le ",
        "3. März 1980",
        "Straße 12",
        "prénom",
        "PRÉNOM",
        "Tél",
        "Liebe Grüße\n",
        "ab:cd:",
        "0171/",
    ),
    *("phone ", "/home/ann/x.py", "C:\\Users\\ann\\x", "password: ", "https://u:p@h/x", "aaaa@", "+1 415 555 0132"),
)
GLUED = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=25).map("".join)
ALONE = {name: (Detector(forms), several) for name, forms, several in (
    ("everything", FORMS, EVERYTHING), ("edge", EDGE_FORMS, EDGE),
)}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
@given(text=GLUED)
@example(text="'FIRST NAME: EMMA\nLAST NAME: JOHNSON")
@example(text=" dob: 1990-01-02ann@example.org")
@example(text="\n".join(CANARIES.values()))
def test_automata_of_families_find_what_one_for_all_forms_finds(name: str, text: str) -> None:
    one, several = ALONE[name]
    assert list(several.detect(text)) == list(one.detect(text))


def test_every_form_is_in_exactly_one_family() -> None:
    listed = [form for family in FAMILIES for form in family.forms]
    assert len(listed) == len(FORMS)
    assert set(listed) == set(FORMS)


@given(GLUED)
@example("\n".join(CANARIES.values()))
def test_a_family_finds_nothing_without_the_characters_that_it_needs(text: str) -> None:
    for family in FAMILIES:
        if family.needs:
            without = text.translate(dict.fromkeys(family.needs, " "))
            pattern = any_of(form.pattern for form in family.forms)
            assert pattern.search(without.encode("utf-8", "surrogatepass")) is None


def loosened_families() -> Iterator[Family]:
    """Those whose bounds are left out at first."""
    return (family for family in FAMILIES if family.is_loosened)


def loosened_patterns() -> Iterator[str]:
    """Theirs, and the triggers that the edge's first look is at."""
    yield from (form.pattern for family in loosened_families() for form in family.forms)
    yield from (trigger for trigger, *_ in FINDERS)


@given(GLUED)
@example("Señora Ångström, 12 Große Straße 5, José’s driver’s license D1234567")
def test_without_upper_bounds_and_in_bytes_a_pattern_matches_wherever_it_matches_as_written(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    if any(letter in data for letter in FOLDED):
        return
    for family in loosened_families():
        for form in family.forms:
            for match in re2.compile(form.pattern).finditer(data):
                found = any_of([bytewise(loosened(form.pattern))], in_bytes=True).match(data, match.start())
                assert found is not None, form.pattern


@pytest.mark.parametrize(
    "text", ['"pa\u017fsword": "hunter2xyz"', '"\u017f\u017fn": "123-45-6789"', "to\u212aen: 'a8f3kd92jd0aa'"]
)
def test_letters_that_are_ascii_ones_where_case_does_not_matter_hide_nothing(text: str) -> None:
    assert list(EVERYTHING.detect(text)) == list(Detector(FORMS).detect(text)) != []


def test_no_negated_class_of_loosened_patterns_names_what_is_outside_ascii() -> None:
    for pattern in loosened_patterns():
        for negated in re.findall(r"\[\^(?:\\.|[^\]\\])+\]", pattern):
            assert negated.isascii(), pattern


def test_negated_classes_of_letters_match_every_character_that_they_match_as_written() -> None:
    classes = {one for pattern in loosened_patterns() for one in re.findall(r"\[\^(?:\\.|[^\]\\])*\\p.*?\]", pattern)}
    assert classes
    characters = [chr(code) for code in range(0x3100) if not 0xD800 <= code < 0xE000]
    for one in classes:
        written, in_bytes = re2.compile(one), any_of([rf"(?:{bytewise(one)})\z"], in_bytes=True)
        for character in filter(written.fullmatch, characters):
            assert in_bytes.match(character.encode()) is not None, (one, character)


def test_braces_of_loosened_patterns_are_bounds() -> None:
    for pattern in loosened_patterns():
        assert not re.search(r"\\\{|\[[^\]]*\{\d", pattern), pattern


@pytest.mark.parametrize(
    "piece",
    [
        '"name": ',
        "born ",
        "dob: x",
        "first name: ",
        '"password": "',
        "my name is ",
        "email=",
        '"dob_',
        "born 1990 ",
        "x-",
        "password-",
    ],
)
@pytest.mark.parametrize("end", ["", "1990-01-02", '"x"', "x" * 300 + '"', "password=aaaaaa"])
def test_what_only_looks_like_a_form_takes_linear_time(piece: str, end: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        list(EVERYTHING.detect(piece * count + end))
        return time.process_time() - started

    seconds(200)
    small, large = min(seconds(2_000) for _ in range(3)), seconds(16_000)
    assert large < 8 * 4 * small + 0.2


@pytest.mark.parametrize(("piece", "end"), [("A-", "straße 12345"), ("A-", "straße 5ü"), ("Umweg-", "weg 5")])
def test_a_street_of_many_parts_is_asked_once(monkeypatch: pytest.MonkeyPatch, piece: str, end: str) -> None:
    asked: list[int] = []
    found_at = Detector._found_at

    def counted(self: Detector, text: str, data: bytes, first: int, last: int, *, start: int) -> Span | None:
        asked.append(first)
        return found_at(self, text, data, first, last, start=start)

    monkeypatch.setattr(Detector, "_found_at", counted)
    list(EVERYTHING.detect(piece * 1_000 + end))
    assert len(asked) <= 3


def whole_by_character(text: str) -> tuple[str, list[tuple[int, int]]]:
    """What views read as, and where each of their characters is."""
    views = views_of(text)
    return "".join(view.text for view in views), [
        view.whole(at, at + 1) for view in views for at in range(len(view.text))
    ]


@given(st.text(alphabet='ab "\\{}[]:,n_u0041%\u200bé\u0435\uff11\n', max_size=40))
def test_places_of_a_view_are_in_order_and_spans_join_those_of_their_characters(text: str) -> None:
    for view in views_of(text):
        places = [view.whole(at, at + 1) for at in range(len(view.text))]
        assert places == sorted(places)
        assert all(0 <= start < end <= len(text) for start, end in places)
        dice = random.Random(text)
        for _ in range(5 if places else 0):
            first, last = sorted((dice.randrange(len(places)), dice.randrange(len(places))))
            assert view.whole(first, last + 1) == (places[first][0], places[last][1])


@pytest.mark.parametrize(
    ("text", "read", "places"),
    [
        ('["a\\nb"]', '["a\nb"]', [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6), (6, 7), (7, 8)]),
        ("a\u200bb", "ab", [(0, 1), (2, 3)]),
        ("%41b", "Ab", [(0, 3), (3, 4)]),
        ('["\\\\u0041b"]', '["Ab"]', [(0, 1), (1, 2), (2, 9), (9, 10), (10, 11), (11, 12)]),
    ],
)
def test_a_view_knows_where_each_character_is_written(text: str, read: str, places: list[tuple[int, int]]) -> None:
    seen, whole = whole_by_character(text)
    assert seen == read
    assert whole == places


def test_a_view_of_plain_text_is_the_text() -> None:
    assert views_of("plain") == [View("plain")]


def test_a_form_of_a_lines_beginning_is_none_behind_a_refused_one() -> None:
    assert [span.type for span in EVERYTHING.detect("\n155550199 dob:7\\")] == []


@pytest.mark.parametrize(
    "text",
    [
        "1:2:3:4:5:6:7:8:/home/ann/x",
        "https://u:p@h\u2192 1:2:3:4:5:6:7:8:~ann/x/y",
        "a_bc:1:2:3:4:5:6:7:8:/home/ann/x",
        "1:2:3:4:5:6:7:8:C:\\Users\\ann\\x",
    ],
)
def test_a_path_behind_what_was_refused_is_found(text: str) -> None:
    assert "ann" not in "".join(without_spans(text)), text


@pytest.mark.parametrize("mark", ["_", "\u2192", "\U0001f4c1"])
def test_a_path_behind_the_last_character_of_a_refused_word_is_found(mark: str) -> None:
    word = Form("REFUSED", rf"\bword{mark}", lambda *_: None)
    text = f"word{mark}/home/ann/x"
    assert [text[span.start : span.end] for span in Detector([word, *PATHS]).detect(text)] == ["/home/ann/x"]


def without_spans(text: str) -> Iterator[str]:
    """What stays of a text."""
    end = 0
    for span in EVERYTHING.detect(text):
        yield text[end : span.start]
        end = span.end
    yield text[end:]


def test_a_row_of_hex_groups_is_asked_once_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    found_at = Detector._found_at

    def counted(self: Detector, text: str, data: bytes, first: int, last: int, *, start: int) -> Span | None:
        asked.append(first)
        return found_at(self, text, data, first, last, start=start)

    monkeypatch.setattr(Detector, "_found_at", counted)
    row = "a:" * 1_000
    assert list(EVERYTHING.detect(row)) == []
    assert len(asked) <= 10
    found = "".join(f"{'ab:' * count}555-123-4567 10.0.0.1 ann@example.org\n" for count in range(1, 20))
    assert [span.type for span in EVERYTHING.detect(found)].count("EMAIL_ADDRESS") == 19
