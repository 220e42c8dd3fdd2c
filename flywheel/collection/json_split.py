"""Splits JSON that is too large to be held into its objects, a block at a time, without decoding it.

Whether a byte is inside a string is the parity of the unescaped quotes before it, and how deep it lies is a sum of
brackets: both are prefix sums, taken by numpy over a block, after Langdale and Lemire, "Parsing Gigabytes of JSON per
Second" (VLDB Journal 2019). Python sees only the brackets of the outermost levels.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import BinaryIO

BLOCK_BYTES = 8 * 1024 * 1024
KEY = re.compile(rb',?\s*"((?:[^"\\]|\\.)*)"\s*:\s*$', re.DOTALL)
KEY_BYTES = 4096
QUOTE, BACKSLASH = 0x22, 0x5C
OPEN_OBJECT, OPEN_LIST, CLOSE_OBJECT, CLOSE_LIST = b"{[}]"
DEEPEST = 3
PASSED_OVER = -1
"""Stands for the depth of elements behind the list that was wanted: no object is so deep."""


class Piece(NamedTuple):
    """An object. ``key`` is the list it is of; empty for an outermost object, or what of it comes before its list."""

    raw: bytes
    line: int
    key: str


class Oversized(NamedTuple):
    """An object that is larger than asked for and was passed over."""

    size: int
    line: int


class Brackets:
    """Finds the outermost brackets of one block after the other."""

    def __init__(self) -> None:
        self._in_string = 0
        self._escaped = False
        self._depth = 0

    def of(self, block: bytes) -> list[tuple[int, int, int]]:
        """Place, byte and depth of the brackets at most ``DEEPEST`` deep; both of a pair have the depth outside it."""
        data = np.frombuffer(block, np.uint8)
        quotes = self._unescaped(data, np.flatnonzero(data == QUOTE))
        folded = data | 0x20  # [ and {, ] and } differ in this bit alone
        places = np.flatnonzero((folded == OPEN_OBJECT) | (folded == CLOSE_OBJECT))
        outside = (np.searchsorted(quotes, places) + self._in_string) % 2 == 0
        places = places[outside]
        self._in_string = (self._in_string + len(quotes)) % 2
        opening = folded[places] == OPEN_OBJECT
        depths = self._depth + np.cumsum(np.where(opening, 1, -1)) - opening
        if len(places):
            self._depth = int(depths[-1]) + bool(opening[-1])
        shallow = depths < DEEPEST
        chosen = places[shallow]
        return list(zip(chosen.tolist(), data[chosen].tolist(), depths[shallow].tolist(), strict=True))

    def _unescaped(self, data: "np.ndarray[Any, Any]", quotes: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """The quotes before which there is an even number of backslashes."""
        slashes = np.flatnonzero(data == BACKSLASH)
        starts_escaped = self._escaped
        if not len(slashes):
            self._escaped = False
            return quotes[1:] if starts_escaped and len(quotes) and quotes[0] == 0 else quotes
        # In a run of backslashes every second one is escaped itself; the block before may have left one open.
        first_of_run = np.concatenate(([True], np.diff(slashes) != 1))
        run_starts = np.flatnonzero(first_of_run)
        within = np.arange(len(slashes)) - np.repeat(run_starts, np.diff(np.append(run_starts, len(slashes))))
        if starts_escaped and slashes[0] == 0:
            first_run = int(run_starts[1]) if len(run_starts) > 1 else len(slashes)
            within[:first_run] += 1
        escaping = slashes[within % 2 == 0]
        self._escaped = bool(len(escaping)) and int(escaping[-1]) == len(data) - 1
        kept = quotes[~np.isin(quotes - 1, escaping, assume_unique=True)]
        return kept[1:] if starts_escaped and len(kept) and kept[0] == 0 else kept


class Splitter:
    """Puts objects together from brackets, over the ends of blocks."""

    def __init__(self, lists: tuple[str, ...], most: int) -> None:
        self._lists = lists
        self._most = most
        self._pending = bytearray()  # since the start of the object that is open, or of the outermost one
        self._dropped = 0
        self._element_depth: int | None = None
        self._key = ""
        self._header: Piece | None = None
        self._open = False
        self._line = self._start_line = 1

    def pieces(self, block: bytes, brackets: list[tuple[int, int, int]]) -> Iterator[Piece | Oversized]:
        """What ends in this block."""
        seen = 0
        for place, byte, depth in brackets:
            if byte in {OPEN_OBJECT, OPEN_LIST}:
                seen = self._opened(block, seen, place, byte, depth)
                if self._header is not None:
                    yield self._header
                    self._header = None
            elif (piece := self._closed(block, seen, place, depth)) is not None:
                seen = place + 1
                yield piece
        self._keep(block, seen, len(block))

    def _opened(self, block: bytes, seen: int, place: int, byte: int, depth: int) -> int:
        if not self._open and (depth == self._element_depth or (depth == 0 and byte == OPEN_OBJECT)):
            self._keep(block, seen, place)
            self._pending.clear()
            self._dropped = 0
            self._open, self._start_line = True, self._line
            return place
        if depth == 0 and byte == OPEN_LIST:
            self._element_depth = 1
        elif depth == 1 and byte == OPEN_LIST and self._open and self._element_depth is None:
            self._keep(block, seen, place)
            if (found := KEY.search(self._pending, max(0, len(self._pending) - KEY_BYTES))) is not None:
                key = found[1].decode(errors="replace")
                if key in self._lists:
                    header = bytes(self._pending[: found.start()]) + b"}"
                    self._header = Piece(header, self._start_line, "")
                    self._open, self._key, self._element_depth = False, key, 2
            return place
        return seen

    def _closed(self, block: bytes, seen: int, place: int, depth: int) -> "Piece | Oversized | None":
        if not self._open:
            if depth == 0:
                self._element_depth, self._key = None, ""
            elif depth == 1 and self._element_depth == 2:
                self._element_depth = PASSED_OVER
            return None
        if depth != (self._element_depth or 0):
            return None
        self._keep(block, seen, place + 1)
        raw, line, size = bytes(self._pending), self._start_line, self._dropped
        self._pending.clear()
        self._dropped = 0
        self._open = False
        return Oversized(size + len(raw), line) if size else Piece(raw, line, self._key)

    def _keep(self, block: bytes, start: int, end: int) -> None:
        self._line += block.count(b"\n", start, end)
        if not self._open:
            return
        if len(self._pending) + end - start > self._most or self._dropped:
            self._dropped += len(self._pending) + end - start
            self._pending.clear()
        else:
            self._pending += block[start:end]


def split(content: bytes, stream: "BinaryIO", *, lists: tuple[str, ...], most: int) -> Iterator[Piece | Oversized]:
    """The objects of a list, of lists of these names in an object, or of several values behind one another.

    Args:
        content: what was read of the stream already.
        stream: the rest.
        lists: names of lists whose elements are wanted one by one.
        most: bytes of the largest object wanted.
    """
    brackets, splitter = Brackets(), Splitter(lists, most)
    for start in range(0, len(content), BLOCK_BYTES):
        block = content[start : start + BLOCK_BYTES]
        yield from splitter.pieces(block, brackets.of(block))
    del content
    while block := stream.read(BLOCK_BYTES):
        yield from splitter.pieces(block, brackets.of(block))
