"""At the edge: secrets and direct identifiers leave a record before it is written for the first time.

The fast part of what the pool does later: closed forms alone, without names, addresses and what one text says of
another. Most records have none of them, and are told so without their JSON.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.context import FINDERS, find_in_columns, find_in_context
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import EDGE, FirstLook, Span
from flywheel.pool.anonymization.fields import FieldReader
from flywheel.pool.anonymization.forms import IDENTIFYING
from flywheel.pool.anonymization.names import words_known
from flywheel.pool.anonymization.places import NONE, Place, places_in
from flywheel.pool.anonymization.spans import Named, by_text, whole_texts
from flywheel.pool.anonymization.surroundings import find_answers
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.anonymization.views import SEPARATOR, joined_views

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?")
MOMENTS = frozenset({"timestamp"})
"""Keys of every log's own time, whose colons and digits would be looked at as an address and a number each time."""


SAMPLES = 400  # texts of some forty words that all begin otherwise


class Edge:
    """Looks at every record of a service. ``kept`` names keys of the outermost one that are left out."""

    def __init__(self, *, kept: frozenset[str] = NONE, detection: Detection = DEFAULT) -> None:
        self._fields = FieldReader(kept=kept, detection=detection)
        self._detection = detection

    def may_find(self, record: Struct) -> bool:
        """Whether there may be anything to remove; if not, ``remove`` would find nothing in the record's JSON.

        What looks like a value is not asked whether it is one: in most records in which one does, there is one.
        """
        texts = self._fields.texts(record)
        if not texts:
            return texts is None
        joined = SEPARATOR.join(texts)
        if not joined.isascii() or "%" in joined or "\\" in joined or joined.count("\0") >= len(texts):
            joined = joined_views(texts)[1]  # it reads otherwise than it is written
        others = chain(self._detection.detect_own(joined), find_in_columns(joined))
        return first_look().may_find_in(joined) or next(others, None) is not None

    def warm_up(self) -> None:
        """Compile, and look at common words: automata make their states as they meet texts, and early records wait."""
        common = files("flywheel.pool.anonymization").joinpath("data/common_words.txt")
        words = common.read_text(encoding="utf-8").split()
        for first in range(SAMPLES):
            first_look().may_find_in(" ".join(words[first::SAMPLES]))
        words_known()
        self.remove({"warm": "up@example.org, 01.02.2026"})

    def remove(self, document: dict[str, Any]) -> Counter[str]:
        """Remove it from what JSON has, in place, and say how many values were replaced, by type."""
        return remove_identifiers(document, detection=self._detection)


def remove_identifiers(record: dict[str, Any] | list[Any], *, detection: Detection = DEFAULT) -> Counter[str]:
    """Replace secrets, e-mail addresses, phone, card, account and state numbers in a record, in place.

    Args:
        record: what JSON has: dictionaries with text keys, lists, texts, numbers.
        detection: types of the team's own go too; a language model is not asked here.

    Returns:
        How many values were replaced, by type.
    """
    anonymizer = Anonymizer(find=find_at_edge, detection=detection)
    anonymizer.replace([place for place in places_in(record, detection=detection) if not is_moment(place)])
    return anonymizer.replaced


def is_moment(place: Place) -> bool:
    """Whether a text is nothing but the time of a log."""
    return place.key in MOMENTS and MOMENT.fullmatch(place.text) is not None


def find_at_edge(
    texts: Sequence[str], *, named: Sequence[Named] = (), detection: Detection = DEFAULT
) -> list[list[Span]]:
    """Closed forms in each text, and what keys name of own types and of what identifies somebody or opens something."""
    own = [one for one in named if detection.is_identifying(one.type)]
    views, joined = joined_views(texts)
    spans = [*found_in(joined, detection), *whole_texts(texts, own, views, detection)]
    return by_text(spans, joined, views, texts)


def found_in(joined: str, detection: Detection) -> Iterator[Span]:
    """What goes whatever a key says of it: closed forms, and what the text around it says."""
    yield from detection.detect_own(joined)
    yield from EDGE.detect(joined)
    yield from find_answers(joined)
    yield from (span for span in find_in_context(joined) if span.type in IDENTIFYING)


@cache
def first_look() -> FirstLook:
    """At all closed forms, and all that gives away what is around it but headers of tables."""
    triggers = (f"(?i:{trigger})" for trigger, *_ in FINDERS)
    return FirstLook([*(form.pattern for form in EDGE.forms), *triggers])
