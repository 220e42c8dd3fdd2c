"""Parts of texts, in bytes."""

from msgspec import Struct

from flywheel.languages import Language

Piece = tuple[int, int]
"""Start and end within a text."""


class Fragment(Struct, frozen=True):
    """Code in one language: what the pieces of a text make when they are put together."""

    language: Language
    pieces: list[Piece]

    def source(self, data: bytes) -> bytes:
        """The code."""
        return b"".join([data[start:end] for start, end in self.pieces])


def lines_of(data: bytes, start: int, end: int) -> list[Piece]:
    """Start and end of every line, its break included."""
    lines: list[Piece] = []
    while start < end:
        found = data.find(b"\n", start, end)
        stop = end if found < 0 else found + 1
        lines.append((start, stop))
        start = stop
    return lines
