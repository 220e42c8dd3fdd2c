"""Brings log files of other programs into the pool's segments: one JSON log a line, in the pool's own format."""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from flywheel.collection.segments import CLOSED_SUFFIX, MAX_PAYLOAD_BYTES, write_closed_segment
from flywheel.errors import SegmentError

SEGMENT_BYTES = 16 * 1024 * 1024


class IngestReport(Struct, frozen=True, kw_only=True):
    """What was read. Every line of a new file is framed, blank, or oversized.

    Attributes:
        files: files whose lines were added now.
        skipped_files: files whose content had been ingested before; their lines are not counted.
        lines: lines framed, malformed ones included: the pool quarantines those with a reason.
        blank_lines: lines of white space only.
        oversized_lines: lines longer than a frame may be; they are left out.
        bytes: size of the files added, as read.
        segments: segment files written.
    """

    files: int = 0
    skipped_files: int = 0
    lines: int = 0
    blank_lines: int = 0
    oversized_lines: int = 0
    bytes: int = 0
    segments: int = 0


class _Counts:
    def __init__(self) -> None:
        self.lines = self.blank_lines = self.oversized_lines = self.bytes = 0


def ingest(paths: Sequence[str], segments_dir: Path) -> IngestReport:
    """Frame the lines of files as they are; ``-`` reads standard input.

    A file's segments are named by the digest of its content, so that the names are the memory of what was ingested:
    the same content again adds nothing, and a killed run is completed by running it again.

    Raises:
        SegmentError: a file cannot be read or a segment not written; the message names it.
    """
    segments_dir.mkdir(parents=True, exist_ok=True)
    counts = _Counts()
    files = skipped = segments = 0
    for path in paths:
        try:
            with _opened(path) as file:
                written = _ingest_file(file, segments_dir, counts)
        except OSError as error:
            raise SegmentError(f"{path} was not ingested: {error}. Running it again completes it.") from error
        files += written is not None
        skipped += written is None
        segments += written or 0
    return IngestReport(
        files=files,
        skipped_files=skipped,
        lines=counts.lines,
        blank_lines=counts.blank_lines,
        oversized_lines=counts.oversized_lines,
        bytes=counts.bytes,
        segments=segments,
    )


def _ingest_file(file: BinaryIO, folder: Path, counts: _Counts) -> int | None:
    """Write the file's segments; returns how many, or None where all of them were there."""
    name = f"ingest-{_digest(file)}"
    last = folder / f"{name}-last{CLOSED_SUFFIX}"
    if last.exists():
        return None
    file.seek(0)
    written = 0
    parts = _parts(_payloads(file, counts))
    part = next(parts, [])
    index = 0
    while part:
        following = next(parts, [])
        # The last part is written last and says that the file is complete. Parts of the same content are the same.
        path = folder / f"{name}-{index:06d}{CLOSED_SUFFIX}" if following else last
        if not path.exists():
            write_closed_segment(path, part)
            written += 1
        part, index = following, index + 1
    return written


def _digest(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=20)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _parts(payloads: Iterator[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for payload in payloads:
        part.append(payload)
        size += len(payload)
        if size >= SEGMENT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _payloads(file: BinaryIO, counts: _Counts) -> Iterator[bytes]:
    while line := file.readline(MAX_PAYLOAD_BYTES):
        counts.bytes += len(line)
        oversized = not line.endswith(b"\n") and len(line) == MAX_PAYLOAD_BYTES
        while oversized and (rest := file.readline(MAX_PAYLOAD_BYTES)):
            counts.bytes += len(rest)
            if rest.endswith(b"\n"):
                break
        payload = line.strip()
        if oversized:
            counts.oversized_lines += 1
        elif payload:
            counts.lines += 1
            yield payload
        else:
            counts.blank_lines += 1


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """The file, or standard input in a temporary file, because its digest is needed before its lines are."""
    if path != "-":
        with Path(path).open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.seek(0)
        yield spool
