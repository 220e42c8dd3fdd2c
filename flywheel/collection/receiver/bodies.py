"""Bodies of requests: their content encoding undone within bounds, and split into items."""

import zlib
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal

import msgspec

from flywheel.errors import FlywheelError

ZSTD_WINDOW = 8 * 2**20  # RFC 9659: what a decoder of HTTP content must support, and need not exceed
ZSTD_SLICE = 256  # 4 bytes can make 128 kB: so much at once stays below 9 MB
PIECE = 1 << 20
OPENING, CLOSING = b"[{", b"]}"
STEPS = bytes.maketrans(OPENING + CLOSING, b"\x01\x01\xff\xff")  # as signed numbers: one level in, one level out
OTHERS = bytes(set(range(256)) - set(OPENING + CLOSING))

Encoding = Literal["identity", "gzip", "zstd"]


class BodyError(FlywheelError):
    """Raised for a body that cannot be read. Send it as the message says."""


class BodyTooLargeError(BodyError):
    """Raised for a body beyond the receiver's bounds. Send less at once."""


class SlowBodyError(BodyError):
    """Raised for a body that does not arrive in time. Send it faster, or less at once."""


class UnknownEncodingError(BodyError):
    """Raised for a content type or encoding that is not known here. Send one that the message names."""


def decoded(body: bytes, encoding: str, *, max_bytes: int) -> bytes:
    """The body without its content encoding; never more than ``max_bytes`` are unpacked.

    Raises:
        UnknownEncodingError: the encoding is none of gzip, zstd and identity.
        BodyTooLargeError: it is larger.
        BodyError: it is broken or cut short.
    """
    match encoding.strip().lower():
        case "" | "identity":
            pieces: Iterator[bytes] = iter((body,))
        case "gzip" | "x-gzip":
            pieces = gunzipped(body)
        case "zstd":
            pieces = unzstd(body)
        case other:
            raise UnknownEncodingError(f"content encoding {other[:40]!r} is not known here; send gzip, zstd or none")
    found = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise BodyTooLargeError(f"the body unpacks to more than the {max_bytes:,} bytes of a request; send less")
        found.append(piece)
    return found[0] if len(found) == 1 else b"".join(found)


def gunzipped(body: bytes) -> Iterator[bytes]:
    """The content of gzip members, piece by piece.

    Raises:
        BodyError: it is broken or cut short.
    """
    rest = body
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            yield member.decompress(rest, PIECE)
            while member.unconsumed_tail and not member.eof:
                yield member.decompress(member.unconsumed_tail, PIECE)
            if not member.eof:
                yield member.flush()
        except zlib.error as error:
            raise BodyError(f"the body is not gzip, or broken: {error}") from None
        if not member.eof:
            raise BodyError("the gzip body is cut short")
        rest = member.unused_data


def unzstd(body: bytes) -> Iterator[bytes]:
    """The content of zstd frames, piece by piece.

    Raises:
        BodyError: it is broken or cut short.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    frame = decompressor.decompressobj()
    begun = False
    rest = memoryview(body)
    while rest:
        try:
            yield frame.decompress(rest[:ZSTD_SLICE])
        except zstandard.ZstdError as error:
            raise BodyError(f"the body is not zstd, or broken: {error}") from None
        begun = True
        rest = rest[ZSTD_SLICE:]
        if frame.eof:
            rest = memoryview(frame.unused_data + bytes(rest)) if frame.unused_data else rest
            frame, begun = decompressor.decompressobj(), False
    if begun:
        raise BodyError("the zstd body is cut short")


def items_of(body: bytes, *, lines: bool) -> list[bytes]:
    """The items of a body: of a JSON list, one JSON value, or one a line. Blank lines are none.

    Raises:
        BodyError: it is no JSON list, as its first character promises, or is empty.
    """
    if lines:
        items = [line for line in (line.strip() for line in body.split(b"\n")) if line]
    elif body.lstrip()[:1] == b"[":
        try:
            items = [bytes(item) for item in msgspec.json.decode(body, type=list[msgspec.Raw])]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BodyError(f"the body is not a JSON list: {error}") from None
    else:
        items = [body.strip()] if body.strip() else []
    if not items and body.lstrip()[:1] != b"[":
        raise BodyError("the body is empty; send a record, a list of records, or one a line")
    return items


def is_deeper(item: bytes, depth: int) -> bool:
    """Whether a JSON text nests deeper; a text that is no JSON may be called deep or not.

    Each step goes through the text once, in C: what is escaped goes, then every other piece between quotes, which are
    the strings, then all but brackets. Each of these is a step in or out.
    """
    if item.count(b"{") + item.count(b"[") <= depth:
        return False
    plain = item.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in item else item
    brackets = b"".join(plain.split(b'"')[::2]).translate(STEPS, OTHERS)
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > depth
