"""Records of JSON documents, one in memory at a time: JSON lines, a list, or an object with long lists in it.

msgspec decodes; what it lets pass and a record may not have, duplicate keys, is found by a count: decoded and encoded
again a record has fewer colons than before only if a key was there twice.
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from flywheel.collection.importers.interface import Json, Opening, Rejected

if TYPE_CHECKING:
    from typing import BinaryIO

    from flywheel.collection.documents import Document

MAX_RECORD_BYTES = 16 * 1024 * 1024
DOCUMENT_BYTES = 64 * 1024 * 1024
UTF8_MARK = b"\xef\xbb\xbf"
OTHER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00{": "UTF-16", b"{\x00": "UTF-16", b"[\x00": "UTF-16"}
OPENS = (b"{", b"[", b'"')
OPENING_BYTES = 126
"""Of a message whose length looks like one of ``OPENS``, and what is before it."""
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
STRING = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
"""The last one may be cut off. No way back into a string is kept, nor is what is in it looked at by itself."""
TOKEN = re.compile(STRING + rb"|[\[\]{}:]", re.DOTALL)
UP_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + STRING + rb")*+[\[\]{}]", re.DOTALL)
BETWEEN = re.compile(rb"[\s,]*")
BYTE = re.compile(r"\(byte (\d+)\)")

decode: Any = msgspec.json.Decoder().decode
decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
encode = msgspec.json.Encoder().encode
ESCAPED = b"\\u003"
"""How a colon that is no separator may be written, among others: where it is, the count does not tell."""
UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


class RawRecord(NamedTuple):
    """One JSON object of a document as its bytes; the fields are those of ``Record``."""

    raw: bytes
    line: int
    item: str = ""
    key: str = ""


class Record(Struct, frozen=True, kw_only=True):
    """One JSON object of a document.

    Attributes:
        value: the object.
        raw: its bytes.
        line: where it starts, from 1.
        item: where it is in its document, ``simulations[3]``; empty for a line, and for the document itself.
        key: the list of the document it is of, or empty.
    """

    value: Json
    raw: bytes
    line: int
    item: str = ""
    key: str = ""


def records(document: "Document", *lists: str) -> Iterator[Record | Rejected]:
    """The objects of a document.

    Of an object that has one of ``lists`` first the object without them comes, then each of their elements. Whatever
    is wrong comes as ``Rejected``.
    """
    for found in document.raw_records(lists):
        record = found if isinstance(found, Rejected) else decoded(*found)
        if lists and isinstance(record, Record) and not record.item:
            yield from exploded(record, lists)  # a line is a document of its own
        else:
            yield record


def raw_records(opening: Opening, stream: "BinaryIO", lists: tuple[str, ...]) -> Iterator[RawRecord | Rejected]:
    """The same before they are decoded; the lists of a line are still in it."""
    head = opening.head
    if encoding := next((name for mark, name in OTHER_MARKS.items() if head.startswith(mark)), None):
        yield Rejected(reason="wrong encoding", detail=f"it is {encoding}; JSON is UTF-8", line=1)
    elif is_lines(head, opening.name):
        yield from of_lines(stream)
    else:
        yield from of_document(stream, lists)


def is_lines(head: bytes, name: str) -> bool:
    """Whether a document has one JSON value a line."""
    if name.endswith((".jsonl", ".ndjson")):
        return True
    lines = [line for line in head.removeprefix(UTF8_MARK).split(b"\n", 4)[:4] if line.strip()]
    return len(lines) > 1 and isinstance(decoded(lines[0].strip(), 1), Record)


def of_lines(stream: "BinaryIO") -> Iterator[RawRecord | Rejected]:
    """The objects of JSON lines."""
    number = 0
    while line := stream.readline(MAX_RECORD_BYTES + 1):
        number += 1
        if len(line) > MAX_RECORD_BYTES and not line.endswith(b"\n"):
            size = len(line) + skip_line(stream)
            yield too_large(size, line=number)
            continue
        payload = (line.removeprefix(UTF8_MARK) if number == 1 else line).strip()
        if payload:
            yield RawRecord(payload, number)


def skip_line(stream: "BinaryIO") -> int:
    """Read to the end of the line; returns how many bytes that was."""
    size = 0
    while rest := stream.readline(1 << 20):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    return size


def exploded(record: Record, lists: tuple[str, ...]) -> Iterator[Record | Rejected]:
    """A decoded object with long lists, as ``records`` gives them."""
    found = [key for key in lists if isinstance(record.value.get(key), list)]
    if not found:
        yield record
        return
    header = {key: value for key, value in record.value.items() if key not in found}
    yield Record(value=header, raw=b"", line=record.line)
    for key in found:
        for index, value in enumerate(record.value[key]):
            item = f"{key}[{index}]"
            if isinstance(value, dict):
                yield Record(value=value, raw=encode(value), line=record.line, item=item, key=key)
            else:
                yield Rejected(reason="not an object", detail=f"it is {value!r:.80}", line=record.line, item=item)


def of_document(stream: "BinaryIO", lists: tuple[str, ...]) -> Iterator[RawRecord | Rejected]:
    """The objects of one JSON document; one larger than ``DOCUMENT_BYTES`` is split on the way."""
    content = b""
    while len(content) <= DOCUMENT_BYTES and (piece := stream.read(DOCUMENT_BYTES + 1 - len(content))):
        content += piece
    content = content.removeprefix(UTF8_MARK)
    if len(content) > DOCUMENT_BYTES:
        yield from of_pieces(content, stream, lists)
        return
    try:
        if content.lstrip()[:1] == b"[":
            yield from of_elements(content, decode_elements(content), key="", start=0)
        else:
            yield from of_object(content, decode_members(content), lists)
    except UNDECODABLE as error:
        rejected = malformed(error, content)
        several = rejected.detail.startswith("JSON is malformed: trailing characters")
        yield from of_pieces(content, stream, lists) if several else [rejected]


def of_object(
    content: bytes, members: dict[str, msgspec.Raw], lists: tuple[str, ...]
) -> Iterator[RawRecord | Rejected]:
    """The objects of a document that is one object."""
    found = [key for key in lists if bytes(members.get(key, b"")).lstrip()[:1] == b"["]
    if not found:
        yield RawRecord(content.strip(), 1)
        return
    if content.count(b":") > encode(members).count(b":"):
        yield Rejected(reason="duplicate keys", detail="a key of the document is there twice", line=1)
        return
    yield RawRecord(encode({key: value for key, value in members.items() if key not in found}), 1)
    for key in found:
        raw = bytes(members[key])
        yield from of_elements(content, decode_elements(raw), key=key, start=content.find(raw))


def of_elements(content: bytes, elements: list[msgspec.Raw], *, key: str, start: int) -> Iterator[RawRecord | Rejected]:
    """The objects of the list that starts at ``start`` or behind it, each with the line where it starts."""
    line, seen = 1, 0
    end = content.index(b"[", start) + 1
    for index, element in enumerate(elements):
        raw = bytes(element).strip()
        start = BETWEEN.match(content, end).end()  # type: ignore[union-attr]  # it matches nothing too
        end = start + len(raw)
        line += content.count(b"\n", seen, start)
        seen = start
        yield RawRecord(raw, line, f"{key}[{index}]", key)


def of_pieces(content: bytes, stream: "BinaryIO", lists: tuple[str, ...]) -> Iterator[RawRecord | Rejected]:
    """The objects of a document too large to be held, or of several behind one another."""
    from flywheel.collection.json_split import Oversized, split  # numpy is wanted by few documents

    index: dict[str, int] = {}
    for piece in split(content, stream, lists=lists, most=MAX_RECORD_BYTES):
        if isinstance(piece, Oversized):
            yield too_large(piece.size, line=piece.line)
        elif not piece.key:
            yield RawRecord(piece.raw, piece.line)
        else:
            number = index[piece.key] = index.get(piece.key, -1) + 1
            yield RawRecord(piece.raw, piece.line, f"{piece.key}[{number}]", piece.key)


def decoded(raw: bytes, line: int, item: str = "", key: str = "") -> Record | Rejected:
    """The object that these bytes are, or what is wrong with them."""
    if len(raw) > MAX_RECORD_BYTES:
        return too_large(len(raw), line=line, item=item)
    try:
        value = decode(raw)
        again = encode(value)
    except UNDECODABLE as error:
        rejected = malformed(error, raw)
        return Rejected(reason=rejected.reason, detail=rejected.detail, line=line, item=item)
    if not isinstance(value, dict):
        return Rejected(reason="not an object", detail=f"it is {value!r:.80}", line=line, item=item)
    if raw != again and has_other_colons(raw, again) and (name := doubled_key(raw)) is not None:
        return Rejected(reason="duplicate keys", detail=f"the key {name!r:.80} is there twice", line=line, item=item)
    return Record(value=value, raw=raw, line=line, item=item, key=key)


def has_other_colons(raw: bytes, again: bytes) -> bool:
    """Whether a record may have lost a key when it was decoded and encoded again."""
    return raw.count(b":") != again.count(b":") or (b"\\" in raw and ESCAPED in raw)


def doubled_key(raw: bytes) -> str | None:
    """A key that one of the objects has twice; None if there is none."""
    doubled: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        doubled.extend(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]

    json.loads(raw, object_pairs_hook=look)
    return doubled[0] if doubled else None


def malformed(error: BaseException, content: bytes) -> Rejected:
    """Why bytes are no JSON, with the line where they stop being it."""
    if isinstance(error, RecursionError):
        return Rejected(reason="nested too deep", detail="objects or lists lie too deep in one another", line=1)
    if isinstance(error, UnicodeDecodeError):
        return Rejected(reason="wrong encoding", detail=f"it is not UTF-8: {error.reason}", line=1)
    found = BYTE.search(str(error))
    line = content.count(b"\n", 0, int(found[1])) + 1 if found else content.count(b"\n") + 1
    return Rejected(reason="malformed JSON", detail=str(error), line=line)


def too_large(size: int, *, line: int, item: str = "") -> Rejected:
    """A record that is not decoded, since what it becomes in memory has no bound worth the name."""
    detail = f"it has {size:,} bytes, a record may have {MAX_RECORD_BYTES:,}"
    return Rejected(reason="record too large", detail=detail, line=line, item=item)


def opens_json(head: bytes) -> bool:
    """Whether a document that begins so is JSON, whatever may be wrong with it.

    Its first byte does not tell: 123, a brace, may be the length of a message of protobuf. Control characters do, of
    which JSON has none but blanks, while such a message has some, as the lengths of ids and the tags of lists.
    """
    return head.removeprefix(UTF8_MARK).lstrip().startswith(OPENS) and CONTROL.search(head, 0, OPENING_BYTES) is None


def opening_keys(head: bytes) -> tuple[frozenset[str], bool]:
    """The keys of the first object of a document, as far as its head reaches, and whether it is in a list."""
    head = head.removeprefix(UTF8_MARK).lstrip()
    listed = head.startswith(b"[")
    keys: set[str] = set()
    depth, last, place = -listed, b"", 0
    while (found := UP_TO_BRACKET.match(head, place) if depth > 1 else TOKEN.search(head, place)) is not None:
        place = found.end()
        token = head[place - 1 : place] if depth > 1 else found[0]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth <= 0:
                break
        elif token == b":":
            if depth == 1:
                keys.add(last[1:-1].decode(errors="replace"))
        else:
            last = token
    return frozenset(keys), listed
