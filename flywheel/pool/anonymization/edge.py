"""At the edge: secrets and direct identifiers leave a record before it is written for the first time.

The fast part of what the pool does later: closed forms alone, without names, addresses and what one text says of
another.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from flywheel.pool.anonymization.context import find_in_context
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.forms import IDENTIFYING
from flywheel.pool.anonymization.places import Place, places_in
from flywheel.pool.anonymization.spans import SEPARATOR, Named, by_text, read, whole_texts
from flywheel.pool.anonymization.text import Anonymizer

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?")
MOMENTS = frozenset({"timestamp"})
"""Keys of every log's own time, whose colons and digits would be looked at as an address and a number each time."""


def remove_identifiers(record: dict[str, Any] | list[Any], *, detection: Detection = DEFAULT) -> Counter[str]:
    """Replace secrets, e-mail addresses, phone, card, account and state numbers in a record, in place.

    Args:
        record: what JSON has: dictionaries with text keys, lists, texts, numbers.
        detection: types of the team's own go too; a language model is not asked here.

    Returns:
        How many values were replaced, by type.
    """
    places = [place for place in places_in(record, detection=detection) if not is_moment(place)]
    if not may_find(places, detection=detection):
        return Counter()
    anonymizer = Anonymizer(find=find_at_edge, detection=detection)
    anonymizer.replace(places)
    return anonymizer.replaced


def may_find(places: Sequence[Place], *, detection: Detection) -> bool:
    """Whether anything is to be replaced in these places. Most records have nothing, and are told so at little cost."""
    if not places:
        return False
    if any(place.type is not None and is_identifying(place.type, detection) for place in places):
        return True
    texts = [place.text for place in places]
    joined = SEPARATOR.join(texts)
    if not joined.isascii() or "%" in joined or "\\" in joined or joined.count("\0") >= len(texts):
        joined = read(texts)[1]  # it reads otherwise than it is written
    return next(found_in(joined, detection), None) is not None


def is_moment(place: Place) -> bool:
    """Whether a text is nothing but the time of a log."""
    return place.key in MOMENTS and MOMENT.fullmatch(place.text) is not None


def find_at_edge(
    texts: Sequence[str], *, named: Sequence[Named] = (), detection: Detection = DEFAULT
) -> list[list[Span]]:
    """Closed forms in each text, and what keys name of own types and of what identifies somebody or opens something."""
    own = [one for one in named if is_identifying(one.type, detection)]
    views, joined = read(texts)
    spans = [*found_in(joined, detection), *whole_texts(texts, own, views, detection)]
    return by_text(spans, joined, views, texts)


def found_in(joined: str, detection: Detection) -> Iterator[Span]:
    """What goes whatever a key says of it: closed forms, and what the text around it says."""
    yield from detection.detect_at_edge(joined)
    yield from (span for span in find_in_context(joined) if span.type in IDENTIFYING)


def is_identifying(kind: str, detection: Detection) -> bool:
    """Whether a key of this kind is enough for a value to go, whatever it looks like."""
    return kind in IDENTIFYING or kind in detection.names
