"""Which quotes a placeholder needs where a bare number of JSON stood: JSON stays JSON, however often it is quoted."""

import re
from bisect import bisect_right
from functools import cached_property

from msgspec import Struct

from flywheel.pool.anonymization.views import is_json

LONGEST_GAP = 64  # characters between a number of JSON and the key or bracket before it
SPACE = r"(?:\s|\\+[nrt])*"  # of JSON that is indented, and perhaps quoted
QUOTE = re.compile(r"(\\*)\"")
AFTER_KEY = re.compile(rf"(\\*[\"']){SPACE}:{SPACE}\Z")
IN_LIST = re.compile(rf"[\[,]{SPACE}\Z")
BARE = re.compile(rf"{SPACE}(?:[,}}\]]|\Z)")


class String(Struct):
    """The inside of a string of JSON, ``text[start:end]``. ``depth`` is how many strings it is in, itself counted."""

    depth: int
    start: int
    end: int


class JsonText:
    """A text that may be JSON, or quote it; it is read for its strings when it is first asked for a list."""

    def __init__(self, text: str) -> None:
        self._text = text

    def quote_at(self, start: int, end: int) -> str:
        """The quote, as it is escaped there, that ``text[start:end]`` needs as a string; none where it needs none."""
        before = max(0, start - LONGEST_GAP)
        if not BARE.match(self._text, end):
            return ""
        if key := AFTER_KEY.search(self._text, before, start):
            return key.group(1)
        if not IN_LIST.search(self._text, before, start):
            return ""
        around = self._string_at(start)
        if not (self._reads_as_json(around) if around else is_json(self._text)):
            return ""
        return "\\" * ((1 << (around.depth if around else 0)) - 1) + '"'

    def _string_at(self, position: int) -> String | None:
        places, strings = self._strings
        behind = bisect_right(places, position)
        return strings[behind - 1] if behind else None

    def _reads_as_json(self, string: String) -> bool:
        cut_off = string.end == len(self._text)
        return self._text[string.start] in "[{" and (cut_off or self._text[string.end - 1] in "]}")

    @cached_property
    def _strings(self) -> tuple[list[int], list[String | None]]:
        """Positions where a string begins or ends, and the innermost string from there on.

        A string in ``n`` others ends with a quote behind ``2 ** n - 1`` backslashes, and behind a multiple of
        ``2 ** (n + 1)`` more where its text ends with backslashes.
        """
        places: list[int] = []
        strings: list[String | None] = []
        opened: list[String] = []
        for quote in QUOTE.finditer(self._text):
            level = trailing_ones(len(quote.group(1)))
            if level > len(opened):
                continue
            if level == len(opened):
                opened.append(String(level + 1, quote.end(), len(self._text)))
            else:
                for closed in opened[level:]:
                    closed.end = quote.start()
                del opened[level:]
            places.append(quote.end())
            strings.append(opened[-1] if opened else None)
        return places, strings


def trailing_ones(number: int) -> int:
    """How many binary digits at the end of a number are 1."""
    return (~number & (number + 1)).bit_length() - 1
