"""Server-sent events as endpoints stream them: lines of bytes, of which those with data count."""

from collections.abc import Iterator

LARGEST_EVENT = 16 * 1024 * 1024
"""Bytes of one event; a stream that sends more without an end of line is no stream of events."""


class EventData:
    """Takes bytes as they come and gives the data of the events that are complete (WHATWG HTML, section 9.2).

    Every line of data is taken for an event of its own: that is how chat completions are streamed. Lines end with LF
    or CR LF; other characters that end lines in a text are left alone, since JSON has them inside its strings.
    """

    def __init__(self) -> None:
        self._rest = bytearray()

    def take(self, content: bytes) -> Iterator[bytes]:
        """The data that is complete with these bytes.

        Raises:
            ValueError: an event is larger than any can be.
        """
        self._rest += content
        *lines, rest = self._rest.split(b"\n")
        if len(rest) > LARGEST_EVENT:
            raise ValueError(f"an event has more than {LARGEST_EVENT:,} bytes")
        self._rest = rest
        yield from _data(lines)

    def end(self) -> Iterator[bytes]:
        """What came last, where the stream ended without an end of line."""
        lines, self._rest = [self._rest], bytearray()
        yield from _data(lines)


def _data(lines: list[bytearray]) -> Iterator[bytes]:
    for line in lines:
        if line.startswith(b"data:"):
            yield bytes(line[5:].strip())
