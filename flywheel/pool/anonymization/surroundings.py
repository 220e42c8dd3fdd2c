"""What a value is by what its text speaks of: dates in one about birth, five digits in one about zip codes."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache

from msgspec import Struct

from flywheel.pool.anonymization.automata import Automaton, any_of
from flywheel.pool.anonymization.checks import is_wordy
from flywheel.pool.anonymization.detectors import EVERYTHING, Span
from flywheel.pool.anonymization.forms import NEAR_A_WORD
from flywheel.pool.anonymization.words import DATE, MONTHS

BIRTH = "birth|dob|born|passenger|patient|gebor|geburt|naissance|naci|nasci|geboorte"
POSTAL = r"zip\b|post(?:al)?[ _-]?code"
IS_POSTAL = re.compile(r"(?<![.\w])zip\b(?!\()|post(?:al)?[ _-]?code", re.IGNORECASE)
NEAR = 200  # characters behind such a word
ANSWERS = frozenset(kind for kind, *_ in NEAR_A_WORD)
ASKED, LONGEST_ANSWER = 48, 20  # characters
FIVE_DIGITS = re.compile(r"\d{5}(?<![\w$€£#./-]\d{5})(?:-\d{4})?(?![\w/%-]|[.,]\d)")
BEHIND_STREET = re.compile(r"(?:, ?|,?\r?\n[ \t]*)(?:[A-Z]{1,2}-)?(\d{5}|\d{4}(?: [A-Z]{2})?|\d{2}-\d{3})(?= [^\W\d_])")
BORN = re.compile(r"[^\d\n.;]{0,30}\bgeboren\b")  # behind the date, as German and Dutch have it
BESIDE = re.compile(r"[\s|(,;:*_–—-]{1,8}(?:<br>\s*)?\Z")  # between a name and its date
PARTS = re.compile(r"[^\W\d_]{3,}|\d+")


MAILBOX = re.compile(
    r"(?:(?<=[:;,\n] )|(?<=[\n\"',;:])|\A)\"?([^\W\d_][^\W\d_'’.-]*(?:,? [^\W\d_][^\W\d_'’.-]*\.?){0,4})\"? <\Z"
)
"""A name and what opens its address in a header of mail, a commit, a list of authors."""
LONGEST_MAILBOX = 100  # characters
ADDRESSED = "<[EMAIL_ADDRESS_"


def find_mailboxes(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Names before addresses in angle brackets: ``From: Ann Smith <ann@example.org>``, also of replaced addresses."""
    from flywheel.pool.anonymization.names import COMMON, kind_of, words_known

    starts = {span.start for span in spans if span.type == "EMAIL_ADDRESS" and text[span.start - 1 : span.start] == "<"}
    if ADDRESSED in text:
        starts |= {match.start() + 1 for match in re.finditer(re.escape(ADDRESSED), text)}
    for start in sorted(starts):
        match = MAILBOX.search(text, max(0, start - LONGEST_MAILBOX), start)
        words = re.findall(r"[^\W\d_]+", match[1]) if match else []
        common = sum(kind_of(word.capitalize(), words_known()) & COMMON != 0 for word in words)
        if match and match[1][0].isupper() and common < len(words):
            yield Span(*match.span(1), "PERSON", "before an address of mail")


class Patterns(Struct, frozen=True):
    """What whole texts are searched for: words about numbers of a state, about birth, about zip codes, and dates.

    ``subject`` is any of the words: most texts have none.
    """

    subject: Automaton
    asking: Automaton
    birth: Automaton
    postal: Automaton
    date: Automaton


def find_by_surroundings(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """What the spans and the subject of a text give away."""
    yield from find_mailboxes(text, spans)
    data = text.encode("ascii", "replace")  # a byte for each character
    ends = {span.end for span in spans if span.type == "PERSON"}
    if patterns().subject.search(data):
        yield from find_answers(text)
        if patterns().birth.search(data):
            yield from birth_dates(text, data, spans, ends)
        yield from postal_codes(text, data)
    for end in ends:
        behind = FIVE_DIGITS.match(text, end + 2) if text.startswith(", ", end) else None
        if behind:
            yield Span(*behind.span(), "ZIP_CODE", "five digits behind a name")
    for span in spans:
        behind = BEHIND_STREET.match(text, span.end) if span.type == "STREET_ADDRESS" else None
        if behind:
            yield Span(*behind.span(1), "ZIP_CODE", "behind a street")


def postal_codes(text: str, data: bytes) -> Iterator[Span]:
    """Five digits near behind a word about zip codes."""
    words = (IS_POSTAL.match(text, start) for start, _ in patterns().postal.places(data))
    postal = [word.end() for word in words if word]
    for match in FIVE_DIGITS.finditer(text) if postal else ():
        nearest = bisect_left(postal, match.start()) - 1
        if nearest >= 0 and match.start() - postal[nearest] <= NEAR:
            yield Span(*match.span(), "ZIP_CODE", "five digits in a text about zip codes")


def find_answers(text: str) -> Iterator[Span]:
    """Numbers of a state that a text begins with, behind one that asks for them: ``Your NHS number?``."""
    if "\0" not in text:
        return
    for start, end in patterns().asking.places(text.encode("ascii", "replace")):
        border = text.find("\0", end, end + ASKED)
        if border < 0:
            continue
        both = text[start : border + ASKED + LONGEST_ANSWER].replace("\0", " ")
        for span in EVERYTHING.detect(both):
            if span.type in ANSWERS and start + span.start > border:
                yield Span(start + span.start, start + span.end, span.type, span.reason)


def birth_dates(text: str, data: bytes, spans: Sequence[Span], ends: Collection[int]) -> Iterator[Span]:
    """Further dates of birth in a text that speaks of birth, by those that were found, and by persons in it."""
    known = {day for span in spans if span.type == "DATE_OF_BIRTH" for day in days_of(text[span.start : span.end])}
    is_german = "geboren" in text
    if not known and not ends and not is_german:
        return
    for first, last in patterns().date.places(data):
        if is_wordy(text, first - 1, first) or is_wordy(text, last - 1, last):
            continue
        if not days_of(text[first:last]).isdisjoint(known):
            yield Span(first, last, "DATE_OF_BIRTH", "a date of birth of the same record")
        elif follows_one(text, first, ends):
            yield Span(first, last, "DATE_OF_BIRTH", "beside a name in a text about birth")
        elif is_german and BORN.match(text, last):
            yield Span(first, last, "DATE_OF_BIRTH", "word behind it")


def follows_one(text: str, start: int, ends: Collection[int]) -> bool:
    """Whether nothing but punctuation is between one of these ends and what starts here."""
    between = BESIDE.search(text, max(0, start - 16), start)
    return between is not None and between.start() in ends


@cache
def patterns() -> Patterns:
    """The patterns, compiled at first use."""
    asking = [words for *_, words in NEAR_A_WORD]
    date = re.sub(r"[^\x00-\x7f]", r"\\?", DATE)  # every letter outside ASCII reads as ``?``
    return Patterns(
        subject=any_of([*asking, BIRTH, POSTAL], ignore_case=True),
        asking=any_of(asking, ignore_case=True),
        birth=Automaton(BIRTH, ignore_case=True),
        postal=Automaton(POSTAL, ignore_case=True),
        date=Automaton(date, ignore_case=True),
    )


@lru_cache(maxsize=4_096)
def days_of(written: str) -> frozenset[tuple[int, int, int]]:
    """The days that a date may mean: year, month, day; ``03/12/1990`` may be two."""
    parts = PARTS.findall(written)
    names = [month for part in parts if (month := month_of(part.lower()))]
    numbers = [int(part) for part in parts if part.isdigit()]
    if names and len(numbers) == 2:
        day, year = numbers
        return valid((year, names[0], day))
    if len(numbers) != 3:
        return frozenset()
    if numbers[0] > 31:
        return valid((numbers[0], numbers[1], numbers[2]))
    first, second, year = numbers
    return valid((year, first, second)) | valid((year, second, first))


def month_of(name: str) -> int | None:
    """The number of a month; ``juin`` and ``juillet`` begin alike."""
    return MONTHS.get(name[:4]) or MONTHS.get(name[:3])


def valid(day: tuple[int, int, int]) -> frozenset[tuple[int, int, int]]:
    """The day, where there can be such a one; years of two digits stay as they are."""
    return frozenset({day}) if 1 <= day[1] <= 12 and 1 <= day[2] <= 31 else frozenset()
