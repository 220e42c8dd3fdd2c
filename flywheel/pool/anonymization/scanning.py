"""Scanning texts in JSON lines: spans out, line for line, in several processes where there is much to do.

Memory does not grow with the input: lines travel in chunks, of which a few are under way. Nothing is at the target
before everything is right: the lines wait in a file beside it.
"""

import gzip
import json
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedReader, RawIOBase
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast
from uuid import uuid4

import msgspec
from msgspec import Raw, Struct

from flywheel.errors import InputError
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.workers import mapped

CHUNK_BYTES = 256_000
CHUNKS_FOR_PROCESSES = 8  # fewer are done before a process has started
GZIP = b"\x1f\x8b"


class Chunk(Struct, frozen=True, kw_only=True):
    """Consecutive lines of a file, the number of the first one from 1, the file's name, what is looked for."""

    name: str
    first: int
    lines: list[bytes]
    detection: Detection = DEFAULT


class Scanned(Struct, frozen=True, kw_only=True):
    """A chunk's output lines, or why one of its lines cannot be used."""

    content: bytes = b""
    lines: int = 0
    spans: int = 0
    problem: str = ""


def scan(
    source: BinaryIO, target: BinaryIO, *, name: str, processes: int, detection: Detection = DEFAULT
) -> tuple[int, int]:
    """Write ``{"spans": […]}`` for every line ``{"text": …}``, its other keys kept.

    Returns how many lines and spans there were.

    Raises:
        InputError: a line cannot be used; what was written until then is of no use.
        PoolError: a process died.
    """
    chunks = chunks_of(source, name=name, detection=detection)
    first = list(islice(chunks, CHUNKS_FOR_PROCESSES))
    used = processes if len(first) == CHUNKS_FOR_PROCESSES else 1
    lines = spans = 0
    for scanned in mapped(scan_chunk, chain(first, chunks), processes=used):
        if scanned.problem:
            raise InputError(scanned.problem)
        target.write(scanned.content)
        lines, spans = lines + scanned.lines, spans + scanned.spans
    return lines, spans


def chunks_of(source: Iterable[bytes], *, name: str, detection: Detection = DEFAULT) -> Iterator[Chunk]:
    """The lines in chunks of about ``CHUNK_BYTES``; a longer line is one by itself."""
    lines: list[bytes] = []
    first, size = 1, 0
    for line in source:
        lines.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield Chunk(name=name, first=first, lines=lines, detection=detection)
            first, lines, size = first + len(lines), [], 0
    if lines:
        yield Chunk(name=name, first=first, lines=lines, detection=detection)


def scan_chunk(chunk: Chunk) -> Scanned:
    """The output lines of a chunk. Runs in any process."""
    written: list[bytes] = []
    count = 0
    for number, line in enumerate(chunk.lines, chunk.first):
        try:
            content, spans = scan_line(line, detection=chunk.detection)
        except (TypeError, ValueError) as error:
            return Scanned(problem=f"{chunk.name}:{number}: {error}. A line is a JSON object with a string as its text")
        written.append(content)
        count += spans
    return Scanned(content=b"".join(written), lines=len(written), spans=count)


def scan_line(line: bytes, *, detection: Detection = DEFAULT) -> tuple[bytes, int]:
    """The output for one line, and how many spans are in it. Values of other keys stay as they are written.

    Raises:
        TypeError: it is no object, or its text no string.
        ValueError: it is not JSON.
    """
    try:
        record = msgspec.json.decode(line, type=dict[str, Raw])
        text = msgspec.json.decode(record.pop("text", Raw(b"null")))
        plain = True
    except msgspec.ValidationError:
        raise TypeError("not a JSON object") from None
    except msgspec.DecodeError:  # not JSON, or half of a surrogate pair, which json alone takes
        record, plain = loaded(line), False
        text = cast("dict[str, object]", record).pop("text", None)
    if not isinstance(text, str):
        raise TypeError("no text, or one that is not a string")
    found = find_spans(text, detection=detection)
    spans = [{"start": span.start, "end": span.end, "type": span.type} for span in found]
    output = {**record, "spans": spans}
    return (msgspec.json.encode(output) if plain else json.dumps(output).encode()) + b"\n", len(spans)


def loaded(line: bytes) -> dict[str, Raw]:
    """A JSON object as ``json`` reads it.

    Raises:
        TypeError: it is another value.
        ValueError: it is not JSON.
    """
    try:
        record = json.loads(line, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise TypeError("not a JSON object")
    return record


def no_constant(name: str) -> None:
    """Refuse what ``json`` takes for a number and JSON does not know."""
    raise ValueError(f"{name} is no JSON value")


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file, or standard input where the path is ``-``; compressed by gzip or not.

    Raises:
        InputError: what is compressed is damaged.
    """
    with nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
        buffered = file if isinstance(file, BufferedReader) else BufferedReader(cast("RawIOBase", file))
        if buffered.peek(2)[:2] != GZIP:
            yield buffered
            return
        try:
            with gzip.open(buffered) as unpacked:
                yield cast("BinaryIO", unpacked)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is damaged: {error}; compress it again") from error


@contextmanager
def whole(path: str) -> Iterator[BinaryIO]:
    """A file to write that is at the path when all went well, and not at all otherwise; ``-`` is standard output."""
    target = Path(path).resolve()
    if path == "-" or (target.exists() and not target.is_file()):
        with tempfile.TemporaryFile() as spool:
            yield spool
            spool.seek(0)
            if path == "-":
                shutil.copyfileobj(spool, sys.stdout.buffer)
                sys.stdout.buffer.flush()
                return
            with target.open("wb") as device:
                shutil.copyfileobj(spool, device)
        return
    unfinished = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
