"""What the texts of a record read as, and what is found in each whatever the others are.

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
from flywheel.pool.anonymization.views import SEPARATOR, View, joined_views

SHORTEST_REMEMBERED, LONGEST_REMEMBERED = 64, 200_000  # characters; a shorter one is read as fast as found
REMEMBERED = 4_000_000  # characters
SEEN = 1 << 16  # texts


class Reading(Struct, frozen=True):
    """What texts read as: views, each with its text's number, all of them as one, and where something is in that.

    ``closed`` are closed forms and names, ``context`` is what the text around says, ``encoded`` what is in base64.
    """

    views: Sequence[tuple[int, View]]
    joined: str
    closed: Sequence[Span]
    context: Sequence[Span]
    encoded: Sequence[Span]


def read_together(texts: Sequence[str], *, detection: Detection = DEFAULT) -> Reading:
    """The texts, which are scanned together and each as if it were alone."""
    views, joined = joined_views(texts)
    closed = [*detection.detect(joined), *find_names(joined)]
    return Reading(views, joined, closed, [*find_in_context(joined)], [*find_encoded(joined, detection=detection)])


def apart(reading: Reading, texts: int) -> list[Reading]:
    """The reading of each of the texts by itself; what reaches beyond its text ends with it."""
    views: list[list[tuple[int, View]]] = [[] for _ in range(texts)]
    for number, view in reading.views:
        views[number].append((0, view))
    joined = [SEPARATOR.join([view.text for _, view in some]) for some in views]
    begins = beginnings(joined)

    def cut(spans: Iterable[Span]) -> list[list[Span]]:
        found: list[list[Span]] = [[] for _ in joined]
        for span in spans:
            number = bisect_right(begins, span.start) - 1
            end = min(span.end, begins[number] + len(joined[number]))
            found[number].append(moved(span, -begins[number], end=end))
        return found

    return list(map(Reading, views, joined, cut(reading.closed), cut(reading.context), cut(reading.encoded)))


def together(readings: Sequence[Reading]) -> Reading:
    """The reading of single texts as one."""
    joined = [one.joined for one in readings]
    begins = beginnings(joined)

    def moved_to_place(found: Iterable[Sequence[Span]]) -> list[Span]:
        return [moved(span, by, end=span.end) for spans, by in zip(found, begins, strict=False) for span in spans]

    return Reading(
        [(number, view) for number, one in enumerate(readings) for _, view in one.views],
        SEPARATOR.join(joined),
        moved_to_place(one.closed for one in readings),
        moved_to_place(one.context for one in readings),
        moved_to_place(one.encoded for one in readings),
    )


def beginnings(joined: Iterable[str]) -> list[int]:
    """Where each of the texts begins in all of them as one, and where another one would."""
    return list(accumulate((len(one) + len(SEPARATOR) for one in joined), initial=0))


def moved(span: Span, by: int, *, end: int) -> Span:
    """The span elsewhere; ``end`` is where it ends before it is moved."""
    return Span(span.start + by, end + by, span.type, span.reason, span.value)


class Memory:
    """The latest readings of a process, of texts of ``REMEMBERED`` characters in all. Threads may share it.

    A text is remembered when it comes for the second time: most never do.
    """

    def __init__(self, detection: Detection) -> None:
        self._detection = detection
        self._readings: OrderedDict[str, Reading] = OrderedDict()
        self._characters = 0
        self._seen = [0] * SEEN
        self._lock = Lock()

    def read_together(self, texts: Sequence[str]) -> Reading:
        """What the function of this name says of the texts."""
        with self._lock:
            long = [n for n, text in enumerate(texts) if SHORTEST_REMEMBERED <= len(text) <= LONGEST_REMEMBERED]
            known = {n: reading for n in long if (reading := self._recalled(texts[n]))}
            again = [n for n in long if n not in known and self._comes_again(texts[n])]
        if not known and not again:
            return read_together(texts, detection=self._detection)
        new = [text for n, text in enumerate(texts) if n not in known]
        read = iter(apart(read_together(new, detection=self._detection), len(new)))
        readings = [known.get(n) or next(read) for n in range(len(texts))]
        with self._lock:
            for n in again:
                self._remember(texts[n], readings[n])
        return together(readings)

    def _comes_again(self, text: str) -> bool:
        code = hash(text)
        place = code % SEEN
        was, self._seen[place] = self._seen[place], code
        return was == code

    def _remember(self, text: str, reading: Reading) -> None:
        self._characters += 0 if text in self._readings else len(text)
        self._readings[text] = reading
        while self._characters > REMEMBERED:
            self._characters -= len(self._readings.popitem(last=False)[0])

    def _recalled(self, text: str) -> Reading | None:
        if (reading := self._readings.get(text)) is not None:
            self._readings.move_to_end(text)
        return reading


@lru_cache(maxsize=4)
def memory_of(detection: Detection) -> Memory:
    """This process's memory of what this detection finds."""
    return Memory(detection)
