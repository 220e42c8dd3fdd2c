"""Opens what people have: files, folders, globs, standard input; gzip, zstd, tar and zip, one within another.

Everything is streamed: an archive's members are read one after the other and nothing is unpacked to disk, but a zip
inside another container, which must be read from its end. What one input may expand to is bounded.
"""

import glob
import gzip
import io
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import zstandard
from msgspec import Struct
from typing_extensions import override

from flywheel.collection.importers.interface import Opening, Rejected
from flywheel.collection.json_records import RawRecord, opening_keys, raw_records
from flywheel.errors import SegmentError
from flywheel.pool.headers import FIRST_MOMENT

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD_BYTES = 64 * 1024
BUFFER_BYTES = 256 * 1024
EXPANSION = 200
FREE_EXPANSION_BYTES = 64 * 1024 * 1024
DEEPEST = 4
ZSTD_WINDOW = 128 * 1024 * 1024
GZIP, ZSTD, ZIP, TAR = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", (b"PK\x03\x04", b"PK\x05\x06"), b"ustar"
ZIP_ZSTD = 93
ZIP_HEADER = Layout("<26xHH")
COMPRESSED = (".gz", ".zst", ".tgz")


class ExpansionError(Exception):
    """An input expands to more than any log file does: a decompression bomb."""


UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    zstandard.ZstdError,
    tarfile.TarError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,  # how zipfile says that a member is encrypted
    ExpansionError,
)
"""What reading a damaged, encrypted or hostile container raises."""


class Budget:
    """How many bytes one input may still expand to: 64 MiB and 200 times its own size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = FREE_EXPANSION_BYTES + EXPANSION * size

    def spend(self, size: int) -> None:
        """Count bytes that came out of a decompressor.

        Raises:
            ExpansionError: they are more than the input may expand to.
        """
        self.left -= size
        if self.left < 0:
            raise ExpansionError(
                f"it expands to more than {EXPANSION} times its {self.size:,} bytes, as decompression bombs do; "
                "unpack it yourself if it is none"
            )


class Stream(io.RawIOBase):
    """Bytes of a source after those that were read ahead; tells a listener how many passed."""

    def __init__(self, source: Any, head: bytes = b"", *, passed: Callable[[int], None] | None = None) -> None:
        self._source = source
        self._head = head
        self._passed = passed

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: "WriteableBuffer") -> int:
        if self._head:
            size = io.BytesIO(self._head).readinto(buffer)
            self._head = self._head[size:]
        else:
            size = self._source.readinto(buffer)
        if self._passed is not None:
            self._passed(size)
        return size


class Document:
    """One file of records, wherever it lay.

    Attributes:
        opening: its name and its beginning.
        stream: its bytes from the start, readable once; seekable where ``opening.members`` says that it is a zip.
        written_at: when its archive or file system says it was written; None where they do not.
    """

    def __init__(self, opening: Opening, stream: BinaryIO, written_at: datetime | None) -> None:
        self.opening = opening
        self.stream = stream
        self.written_at = written_at

    @property
    def name(self) -> str:
        """Its path, within its archive too."""
        return self.opening.name

    def raw_records(self, lists: tuple[str, ...]) -> Iterator[RawRecord | Rejected]:
        """Its JSON objects as ``json_records.records`` has them, not decoded; reading may raise ``UNREADABLE``."""
        return raw_records(self.opening, self.stream, lists)


class Unopened(Struct, frozen=True):
    """A document that cannot be opened, and what is wrong with it."""

    name: str
    rejected: Rejected


Found = Generator[Document | Unopened, None, None]


def expanded(paths: list[str]) -> list[str]:
    """The files that arguments name: files themselves, those of folders and below, and of globs, sorted.

    Hidden files of folders and empty ones are left out.

    Raises:
        SegmentError: nothing has that name.
    """
    files: list[str] = []
    for path in paths:
        if path == "-" or Path(path).is_file():
            files.append(path)
        elif Path(path).is_dir():
            files += files_below(path)
        elif Path(path).exists():
            raise SegmentError(
                f"{path} was not ingested: it is neither a file nor a folder, and what is imported is read twice; "
                "give a pipe as standard input, with - in place of its name"
            )
        elif matches := sorted(glob.glob(path, recursive=True)):
            files += expanded([match for match in matches if Path(match).exists()])
        else:
            raise SegmentError(f"{path} was not ingested: there is no such file or folder")
    return list(dict.fromkeys(files))


def files_below(folder: str) -> Iterator[str]:
    """The files in a folder and in those below."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(parent, name)
            if not name.startswith(".") and os.path.isfile(path) and os.path.getsize(path):
                yield path


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The file, or standard input in a temporary file, because its digest is needed before its lines are."""
    if path != "-":
        with Path(path).open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.seek(0)
        yield spool


def documents(
    path: str, file: BinaryIO, *, whole: Callable[[Opening], bool], passed: Callable[[int], None] | None = None
) -> Found:
    """The documents in a file. ``whole`` says which zips are one document; ``passed`` hears of bytes read of the file.

    What cannot be opened comes as ``Unopened``; reading a document may raise one of ``UNREADABLE``.
    """
    status = os.fstat(file.fileno())
    written_at = None if path == "-" else datetime.fromtimestamp(status.st_mtime, UTC)
    walk = Walk(Budget(status.st_size), whole)
    name = "standard input" if path == "-" else path
    head = file.read(HEAD_BYTES)
    file.seek(0)
    if head.startswith(ZIP):
        return walk.zipped(name, head, file, written_at, depth=0)
    return walk.opened(name, Stream(file, passed=passed), written_at, depth=0)


class Walk:
    """Through one input, container by container."""

    def __init__(self, budget: Budget, whole: Callable[[Opening], bool]) -> None:
        self._budget = budget
        self._whole = whole

    def opened(self, name: str, source: Any, written_at: datetime | None, *, depth: int) -> Found:
        """The documents of a stream, which is one itself if it is no container."""
        try:
            head = read_ahead(source)
        except UNREADABLE as error:
            yield unreadable(name, error)
            return
        stream = cast(BinaryIO, io.BufferedReader(Stream(source, head), BUFFER_BYTES))
        if depth > DEEPEST:
            detail = f"containers lie more than {DEEPEST} deep in one another"
            yield Unopened(name, Rejected(reason="nested too deep", detail=detail))
        elif head.startswith(GZIP):
            inner = gzip.GzipFile(fileobj=stream)
            yield from self._unpacked(name, inner, believed(int.from_bytes(head[4:8], "little")) or written_at, depth)
        elif head.startswith(ZSTD):
            decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
            yield from self._unpacked(
                name, decompressor.stream_reader(stream, read_across_frames=True), written_at, depth
            )
        elif head.startswith(ZIP):
            with tempfile.TemporaryFile() as spool:
                shutil.copyfileobj(stream, spool)
                yield from self.zipped(name, head, cast(BinaryIO, spool), written_at, depth=depth)
        elif head[257:262] == TAR:
            yield from self._tarred(name, stream, written_at, depth)
        else:
            yield Document(opening_of(name, head), stream, written_at)

    def _unpacked(self, name: str, inner: Any, written_at: datetime | None, depth: int) -> Found:
        bare = name
        for suffix in COMPRESSED:
            bare = bare.removesuffix(suffix)
        return self.opened(bare, Stream(inner, passed=self._budget.spend), written_at, depth=depth + 1)

    def _tarred(self, name: str, stream: BinaryIO, written_at: datetime | None, depth: int) -> Found:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isfile() and member.size else None
                    if content is not None and not hidden(member.name):
                        inner = f"{name}!{member.name}"
                        yield from self.opened(inner, content, believed(member.mtime) or written_at, depth=depth + 1)
        except UNREADABLE as error:
            yield unreadable(name, error)

    def zipped(self, name: str, head: bytes, file: BinaryIO, written_at: datetime | None, *, depth: int) -> Found:
        """The documents of a zip."""
        try:
            with zipfile.ZipFile(file) as archive:
                opening = Opening(name=name, head=head, members=frozenset(archive.namelist()))
                if self._whole(opening):
                    yield Document(opening, file, written_at)
                    return
                for member in archive.infolist():
                    if not member.is_dir() and member.file_size and not hidden(member.filename):
                        yield from self._member(name, archive, member, depth)
        except UNREADABLE as error:
            yield unreadable(name, error)

    def _member(self, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, depth: int) -> Found:
        inner = f"{name}!{member.filename}"
        try:
            written_at = datetime(*member.date_time, tzinfo=UTC)
        except ValueError:
            written_at = None
        try:
            with member_content(archive, member) as content:
                yield from self.opened(inner, Stream(content, passed=self._budget.spend), written_at, depth=depth + 1)
        except UNREADABLE as error:
            yield unreadable(inner, error)


def member_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """A member's bytes; compressed by zstd too, which this Python's zipfile does not know yet."""
    if member.compress_type != ZIP_ZSTD or archive.fp is None:
        return archive.open(member)
    archive.fp.seek(member.header_offset)
    header = archive.fp.read(ZIP_HEADER.size)
    if len(header) < ZIP_HEADER.size:
        raise zipfile.BadZipFile(f"the header of {member.filename} is cut off")
    name_size, extra_size = ZIP_HEADER.unpack(header)
    archive.fp.seek(name_size + extra_size, os.SEEK_CUR)
    compressed = archive.fp.read(member.compress_size)
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    return decompressor.stream_reader(compressed, read_across_frames=True)


def read_ahead(source: Any) -> bytes:
    """The first bytes, as many as the head may have."""
    head = b""
    while len(head) < HEAD_BYTES and (piece := source.read(HEAD_BYTES - len(head))):
        head += piece
    return head


def opening_of(name: str, head: bytes) -> Opening:
    """The opening of a document that is no container."""
    keys, listed = opening_keys(head)
    return Opening(name=name, head=head, keys=keys, listed=listed)


def hidden(name: str) -> bool:
    """Whether a member of an archive is a hidden file, or of what some systems add to archives."""
    return any(part.startswith((".", "__MACOSX")) and part not in {".", ".."} for part in name.split("/"))


def believed(seconds: float) -> datetime | None:
    """A time that a container gives, unless it is one that stands for none."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment if moment >= FIRST_MOMENT else None


def unreadable(name: str, error: BaseException) -> Unopened:
    """A container that cannot be read on."""
    return Unopened(name, rejection_of(error))


def rejection_of(error: BaseException) -> Rejected:
    """What was wrong with a container."""
    reason = "decompression bomb" if isinstance(error, ExpansionError) else "unreadable"
    return Rejected(reason=reason, detail=str(error) or type(error).__name__)
