"""Files of OTLP in protobuf, message by message: nothing but one message is held.

- OpenTelemetry's Collector precedes each request by its length in four bytes, the largest first; where its file
  exporter compresses, what follows is zstd, of JSON too.
- OpenTelemetry's specification of file exporters precedes each message by its length as protobuf's varint.
- The body of one request is ``resource_spans`` behind one another, each with the tag of the first field. What several
  such bodies make when they are put behind one another is a body as well.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from flywheel.collection.importers.interface import Rejected
from flywheel.collection.json_records import MAX_RECORD_BYTES, opens_json, too_large

if TYPE_CHECKING:
    from typing import BinaryIO

FIRST_FIELD = 0x0A
GROUP_FIELDS = frozenset({0x0A, 0x12, 0x1A})
"""Tags within ``ResourceSpans`` and ``ResourceLogs``: resource, scopes, and the address of their schema."""
LONGEST_VARINT = 5
ZSTD, OBJECT = b"\x28\xb5\x2f\xfd", b"{"


class Frame(NamedTuple):
    """One request, in protobuf or JSON, by its number from 1."""

    payload: bytes
    number: int

    @property
    def is_json(self) -> bool:
        """Whether it is JSON."""
        return self.payload.startswith(OBJECT)


Header = Callable[["BinaryIO"], "int | None"]


def framing(head: bytes) -> Header | None:
    """How the messages of a file that begins so are read: what reads the length of the next; None if it has none."""
    if opens_json(head):
        return None
    if begins_request(head):
        return length_after_tag
    size = int.from_bytes(head[:4], "big")
    if len(head) > 4 and 0 < size <= MAX_RECORD_BYTES and begins_message(head[4 : 4 + size]):
        return length_in_four_bytes
    size, start = varint(head)
    return length_as_varint if start and size and begins_request(head[start : start + size]) else None


def begins_message(start: bytes) -> bool:
    """Whether a message in any of the encodings begins so."""
    return start.startswith((ZSTD, OBJECT)) or begins_request(start)


def begins_request(head: bytes) -> bool:
    """Whether bytes are the beginning of a request: fields that it has, of lengths that fit, as far as they reach."""
    if not head or head[0] != FIRST_FIELD:
        return False
    size, start = varint(head, 1)
    place, end = start, start + size
    if not start:
        return False
    while place < min(end, len(head)):
        if head[place] not in GROUP_FIELDS:
            return False
        size, start = varint(head, place + 1)
        place = start + size
        if not start:
            return len(head) - place <= LONGEST_VARINT  # cut off within a length
    return place == end or (place > len(head) and place <= end)


def varint(content: bytes, start: int = 0) -> tuple[int, int]:
    """A number as protobuf writes it, and the place behind it; 0 and 0 where there is none."""
    value = 0
    for index, byte in enumerate(content[start : start + LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, start + index + 1
    return 0, 0


class BrokenFrameError(ValueError):
    """The file is cut off, or something else than messages stands in it."""


def length_in_four_bytes(stream: "BinaryIO") -> int | None:
    """The length of the next message in the Collector's files; None at the end."""
    header = exactly(stream, 4, optional=True)
    return int.from_bytes(header, "big") if header else None


def length_as_varint(stream: "BinaryIO") -> int | None:
    """The length of the next delimited message; None at the end."""
    header = exactly(stream, 1, optional=True)
    if not header:
        return None
    while header[-1] >= 0x80:
        if len(header) >= LONGEST_VARINT:
            raise BrokenFrameError("expected the length of a message")
        header += exactly(stream, 1)
    return varint(header)[0]


def length_after_tag(stream: "BinaryIO") -> int | None:
    """The length of the next element of a request's list; None at the end."""
    tag = exactly(stream, 1, optional=True)
    if not tag:
        return None
    if tag[0] != FIRST_FIELD:
        raise BrokenFrameError(f"expected the tag of resource spans, 0x0a, found 0x{tag[0]:02x}")
    size = length_as_varint(stream)
    if size is None:
        raise BrokenFrameError("the file ends within a message")
    return size


def exactly(stream: "BinaryIO", size: int, *, optional: bool = False) -> bytes:
    """So many bytes; none where the stream ends before the first and they are ``optional``."""
    content = b""
    while len(content) < size and (piece := stream.read(size - len(content))):
        content += piece
    if len(content) == size or (optional and not content):
        return content
    raise BrokenFrameError(f"the file ends within a message: {size:,} bytes were announced, {len(content):,} are there")


def frames(stream: "BinaryIO", header: Header) -> Iterator[Frame | Rejected]:
    """The messages of a file. One that is too large is passed over; behind a broken one nothing can be read."""
    number = 0
    try:
        while (size := header(stream)) is not None:
            number += 1
            item = f"message {number}"
            if size > MAX_RECORD_BYTES:
                passed_over(stream, size)
                yield too_large(size, line=1, item=item)
                continue
            payload = exactly(stream, size)
            if header is length_after_tag:
                payload = as_request(payload)
            try:
                yield Frame(unpacked(payload), number)
            except zstandard.ZstdError as error:
                yield Rejected(reason="unreadable", detail=str(error), item=item)
    except BrokenFrameError as error:
        yield Rejected(reason="cut off", detail=str(error), item=f"message {number}")


def passed_over(stream: "BinaryIO", size: int) -> None:
    """Read a message without keeping it."""
    while size:
        size -= len(exactly(stream, min(size, 1 << 20)))


def as_request(element: bytes) -> bytes:
    """An element of a request's list as a request of its own."""
    size, length = len(element), bytearray([FIRST_FIELD])
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*length, size]) + element


def unpacked(payload: bytes) -> bytes:
    """The message, decompressed.

    Raises:
        zstandard.ZstdError: it is damaged, or larger than a message may be.
    """
    if not payload.startswith(ZSTD):
        return payload
    content = zstandard.ZstdDecompressor().stream_reader(payload).read(MAX_RECORD_BYTES + 1)
    if len(content) > MAX_RECORD_BYTES:
        raise zstandard.ZstdError(f"it expands to more than {MAX_RECORD_BYTES:,} bytes, which a message may have")
    return content
