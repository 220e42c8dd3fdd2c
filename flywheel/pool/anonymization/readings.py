"""What each text of a record reads as, and what is found in it whatever the record's other texts are.

Agents' logs say much again and again: system prompts, tasks, results of tools. What remembers its latest readings
does not read those again.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from threading import Lock

from msgspec import Struct

from flywheel.pool.anonymization.context import find_in_context
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.encoded import find_encoded
from flywheel.pool.anonymization.names import find_names
from flywheel.pool.anonymization.views import SEPARATOR, View, views_of

SHORTEST_REMEMBERED = 64  # characters: of a shorter text looking for it takes as long as reading it
LONGEST_REMEMBERED = 200_000
REMEMBERED = 4_000_000


class Reading(Struct, frozen=True):
    """A text's views, all of them as one (``read``), and where something is in that.

    ``closed`` are closed forms and names, ``context`` is what the text around says, ``encoded`` what is in base64.
    """

    views: tuple[View, ...]
    read: str
    closed: tuple[Span, ...]
    context: tuple[Span, ...]
    encoded: tuple[Span, ...]


def read_each(texts: Sequence[str], *, detection: Detection = DEFAULT) -> list[Reading]:
    """The readings of some texts, which are scanned together and each as if it were alone."""
    views = [tuple(views_of(text)) for text in texts]
    reads = [SEPARATOR.join([view.text for view in some]) for some in views]
    joined = SEPARATOR.join(reads)
    begins = beginnings(reads)
    closed = cut([*detection.detect(joined), *find_names(joined)], reads, begins)
    context = cut(find_in_context(joined), reads, begins)
    encoded = cut(find_encoded(joined, detection=detection), reads, begins)
    return list(map(Reading, views, reads, closed, context, encoded))


def beginnings(reads: Iterable[str]) -> list[int]:
    """Where each of the texts begins in all of them as one, and where another one would."""
    return list(accumulate((len(read) + len(SEPARATOR) for read in reads), initial=0))


def cut(spans: Iterable[Span], reads: Sequence[str], begins: Sequence[int]) -> list[tuple[Span, ...]]:
    """What was found in all the texts, for each of them; what reaches beyond its text ends with it."""
    found: list[list[Span]] = [[] for _ in reads]
    for span in spans:
        number = bisect_right(begins, span.start) - 1
        begin = begins[number]
        found[number].append(moved(span, -begin, end=begin + len(reads[number])))
    return list(map(tuple, found))


def moved(span: Span, by: int, *, end: int) -> Span:
    """The span in another text, up to an end of this one."""
    if by == 0 and span.end <= end:
        return span
    return Span(span.start + by, min(span.end, end) + by, span.type, span.reason, span.value)


class Memory:
    """The latest readings of a process, of texts of ``REMEMBERED`` characters in all. Threads may share it."""

    def __init__(self, detection: Detection) -> None:
        self._detection = detection
        self._readings: OrderedDict[str, Reading] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def read_each(self, texts: Sequence[str]) -> list[Reading]:
        """What the function of this name says of the texts."""
        with self._lock:
            known = [self._readings.get(text) for text in texts]
        new = [text for text, reading in zip(texts, known, strict=True) if reading is None]
        read = iter(read_each(new, detection=self._detection))
        readings = [reading or next(read) for reading in known]
        with self._lock:
            self._remember(zip(texts, readings, strict=True))
        return readings

    def _remember(self, readings: Iterable[tuple[str, Reading]]) -> None:
        for text, reading in readings:
            if not SHORTEST_REMEMBERED <= len(text) <= LONGEST_REMEMBERED:
                continue
            self._characters += len(text) if text not in self._readings else 0
            self._readings[text] = reading
            self._readings.move_to_end(text)
        while self._characters > REMEMBERED:
            self._characters -= len(self._readings.popitem(last=False)[0])


@lru_cache(maxsize=4)
def memory_of(detection: Detection) -> Memory:
    """This process's memory of what this detection finds."""
    return Memory(detection)
