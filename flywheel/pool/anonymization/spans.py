"""Everything personal or secret in texts: closed forms, names, and what one place says of a value anywhere in them.

Each text is read as if it were alone (``flywheel.pool.anonymization.readings``), and then all as the strings of one
record: a name that a key of one string gives away is found in all others.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter

from msgspec import Struct

from flywheel.pool.anonymization.checks import is_wordy
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.names import COMMON, PLACE, WORD, kind_of, words_known
from flywheel.pool.anonymization.readings import Memory, read_together
from flywheel.pool.anonymization.surroundings import find_by_surroundings
from flywheel.pool.anonymization.views import SEPARATOR, View

CARRIED = frozenset({
    "PERSON", "USER_ID", "DATE_OF_BIRTH", "STREET_ADDRESS", "PHONE_NUMBER", "ZIP_CODE", "PAYMENT_ID", "BANK_ACCOUNT",
    "NATIONAL_ID", "US_SSN", "US_PASSPORT", "US_DRIVER_LICENSE", "SECRET", "CREDIT_CARD",
})  # fmt: skip
"""Types whose values are looked for wherever else the record has them."""
MOST_CARRIED = 400  # values of a record
SHORTEST_CARRIED, LONGEST_CARRIED = 4, 120  # characters; names may be shorter
CODE_FOLLOWS = frozenset("(=/\\\\@$")
INTRODUCED = "introduced as a name"  # a word that may be none: ``this is Kubernetes``
SHORTEST_NUMBER = 5  # digits: fewer are limits, ports and counts


class Named(Struct, frozen=True):
    """A text of which a key outside says what it is as a whole."""

    number: int
    type: str


def find_spans(text: str, *, detection: Detection = DEFAULT) -> list[Span]:
    """Every personal or secret value of a text, in order, without overlaps; offsets in characters."""
    return find_each([text], detection=detection)[0]


def find_each(
    texts: Sequence[str],
    *,
    named: Sequence[Named] = (),
    detection: Detection = DEFAULT,
    memory: Memory | None = None,
) -> list[list[Span]]:
    """The same for each text of one record.

    Args:
        texts: of the record, each once.
        named: those that are a value of this type as a whole.
        detection: what is looked for.
        memory: of this detection, which does not read again what it has read.
    """
    reading = memory.read_together(texts) if memory else read_together(texts, detection=detection)
    views, joined = reading.views, reading.joined
    spans = [*reading.closed, *whole_texts(texts, named, views, detection), *reading.context]
    spans += find_by_surroundings(joined, spans)
    spans += reading.encoded
    places = {(span.start, span.end) for span in spans}
    spans += find_carried(joined, carried_values(joined, spans), places)
    if detection.names:
        spans += find_carried(joined, carried_values(joined, spans, types=detection.names), places)
    if detection.ner_model:
        from flywheel.pool.anonymization.ner import find_persons

        spans += find_persons(joined, detection.ner_model)
    return by_text(spans, joined, views, texts)


def by_text(
    spans: Sequence[Span], joined: str, views: Sequence[tuple[int, View]], texts: Sequence[str]
) -> list[list[Span]]:
    """What was found in the joined views, for each text in order and without overlaps."""
    found: list[list[Span]] = [[] for _ in texts]
    for number, span in placed(spans, joined, views):
        found[number].append(span)
    return [merged(some) if len(some) > 1 else some for some in found]


def whole_texts(
    texts: Sequence[str], named: Sequence[Named], views: Sequence[tuple[int, View]], detection: Detection
) -> Iterator[Span]:
    """The texts that a key names, where they are in the joined views."""
    types = {one.number: one.type for one in named if detection.is_plausible(one.type, texts[one.number])}
    position = 0
    for number, view in views if types else ():
        if number in types and view.text:
            yield Span(position, position + len(view.text), types[number], "key")
        position += len(view.text) + len(SEPARATOR)


def placed(spans: Sequence[Span], joined: str, views: Sequence[tuple[int, View]]) -> Iterator[tuple[int, Span]]:
    """The spans of joined views as spans of their texts."""
    ends = list(accumulate(len(view.text) + len(SEPARATOR) for _, view in views))
    for span in spans:
        index = bisect_right(ends, span.start)
        number, view = views[index]
        offset = ends[index - 1] if index else 0
        start, end = view.whole(span.start - offset, min(span.end - offset, len(view.text)))
        yield number, Span(start, end, span.type, span.reason, joined[span.start : span.end])


def merged(spans: Sequence[Span]) -> list[Span]:
    """Spans in order without overlaps: one that another overlaps is part of it, and the longer one says what it is."""
    result: list[Span] = []
    for span in sorted(spans, key=attrgetter("start", "end")):
        last = result[-1] if result else None
        if last is None or span.start >= last.end:
            result.append(span)
            continue
        longer = max(last, span, key=lambda one: one.end - one.start)
        result[-1] = Span(last.start, max(last.end, span.end), longer.type, longer.reason, longer.value)
    return result


def carried_values(text: str, spans: Sequence[Span], *, types: frozenset[str] = CARRIED) -> set[tuple[str, str]]:
    """Values that what was found gives away for the rest of the record, and their types."""
    values: set[tuple[str, str]] = set()
    for span in spans:
        if span.type in types and (span.reason != INTRODUCED or " " in text[span.start : span.end]):
            values |= values_of(text[span.start : span.end], span.type)
    return values


def values_of(value: str, kind: str) -> set[tuple[str, str]]:
    """What to look for elsewhere: a value, and of a person's name also each word that is nothing but a name."""
    stripped = value.strip()
    if kind != "PERSON":
        least = SHORTEST_NUMBER if stripped.isdigit() else SHORTEST_CARRIED
        is_telling = least <= len(stripped) <= LONGEST_CARRIED and not stripped.isalpha()
        return {(stripped, kind)} if is_telling else set()
    known = words_known()
    words = [word for word in WORD.findall(stripped) if len(word) > 1 and not kind_of(word, known) & (COMMON | PLACE)]
    return {(word, kind) for word in [*words, *([stripped] if " " in stripped else [])] if len(word) <= LONGEST_CARRIED}


def find_carried(text: str, values: set[tuple[str, str]], places: set[tuple[int, int]]) -> Iterator[Span]:
    """Each of the values as a whole word, wherever it is but at the places where something was found anyway."""
    for value, kind in sorted(values, key=lambda one: (-len(one[0]), one))[:MOST_CARRIED]:
        length = len(value)
        start = text.find(value)
        while start >= 0:
            end = start + length
            if (start, end) not in places and stands_as_value(text, start, end, kind):
                yield Span(start, end, kind, "value that the record names elsewhere")
            start = text.find(value, end)


def stands_as_value(text: str, start: int, end: int, kind: str) -> bool:
    """Whether a known value is a word of its own here; a name must not be one of code, such as ``optim.Adam(``."""
    if is_wordy(text, start - 1, start) or is_wordy(text, end - 1, end):
        return False
    if kind != "PERSON":
        return True
    return WORD.match(text, start) is not None and text[end : end + 1] not in CODE_FOLLOWS
