"""Takes one file, or several whose records belong together, into segments."""

import hashlib
import os
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from datetime import datetime
from functools import partial
from io import FileIO
from itertools import count
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flywheel.collection.completion import Terms
from flywheel.collection.documents import Document, Unopened, documents, opened
from flywheel.collection.entries import Entry
from flywheel.collection.fidelity import Account, tally_of_logs
from flywheel.collection.gathering import Gathering, gathering
from flywheel.collection.importers.interface import (
    AnyImporter,
    Gatherer,
    Importer,
    Line,
    Opening,
    Rejected,
    is_gatherer,
)
from flywheel.collection.importers.registry import importer_of, importers, recognized
from flywheel.collection.mapping import Mapping
from flywheel.collection.parts import SourcedGroup, entries_of_document, entries_of_groups, rows_of_document
from flywheel.collection.segments import CLOSED_SUFFIX, write_closed_segment
from flywheel.errors import PoolError, SegmentError
from flywheel.records import Evaluation, Execution, Feedback, Log, RoutingDecision

SEGMENT_BYTES = 16 * 1024 * 1024
RECEIPT_SUFFIX = ".receipt.json"
RULES_VERSION = 4
"""Raised when the same file would make other logs: then it is imported anew."""
KINDS: dict[type[Log], int] = {RoutingDecision: 1, Execution: 2, Evaluation: 4, Feedback: 0}
JOINED = 7
decode_account = msgspec.json.Decoder(Account).decode


class Request(Struct, frozen=True, kw_only=True):
    """How files are to be taken.

    Attributes:
        tenant_id: whose traces they are; native logs name their own.
        format: of all of them; empty: as each is recognized.
        task_type: of all runs; empty: as mapping or importer says.
        mapping: what the formats do not say.
    """

    tenant_id: str = "imported"
    format: str = ""
    task_type: str = ""
    mapping: Mapping = Mapping()

    def name_of(self, digest: str) -> str:
        """What the segments of a file with this digest are called, imported on these terms."""
        terms = (self.tenant_id, self.format, self.task_type, self.mapping.model_dump_json(), str(RULES_VERSION))
        return f"ingest-{digest}-{hashlib.blake2b(chr(0).join(terms).encode(), digest_size=6).hexdigest()}"


class Seen(Struct):
    """Hashes of what was written, by the number of the file it was in, and the native tasks by their logs.

    They are Python's own of 64 bits, keyed anew in each process (SipHash): nobody can aim at one, and two of a billion
    contents share one with a chance of 1 to 40.
    """

    files: dict[int, int] = {}
    tasks: dict[int, int] = {}


class Import:
    """What the files of one import share. ``progress`` hears a file's name and bytes read of it.

    ``digests`` are those of files by what tells that they were not changed: of formats that want all files at once a
    file is looked at twice. When the inode changed is part of it: a time of writing can be set back.
    """

    def __init__(
        self, folder: Path, request: Request, progress: Callable[[str, int], None] | None, processes: int
    ) -> None:
        self.folder, self.request, self.progress, self.processes = folder, request, progress, processes
        self.seen, self.numbers = Seen(), count()
        self.digests: dict[tuple[int, ...], str] = {}


class GathersError(Exception):
    """The records of a file are parts of runs whose other parts may be in other files: all are wanted at once."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.format = name


class Taking:
    """One file on its way into segments, or several whose records belong together."""

    def __init__(self, paths: list[str], importing: Import, *, alone: bool) -> None:
        self.account = Account()
        self.size = 0
        self._paths, self._path, self._alone = paths, paths[0], alone
        self._folder, self._request, self._progress = importing.folder, importing.request, importing.progress
        self._processes = importing.processes
        self._seen, self._number = importing.seen, next(importing.numbers)
        self._digests = importing.digests
        self._reopened: Callable[[str], AbstractContextManager[BinaryIO]] = opened
        self._gathered: dict[str, tuple[Gatherer, Gathering]] = {}
        self._sources: list[tuple[str, datetime | None]] = []

    def run(self) -> int | None:
        """Write the segments; returns how many, or None where the files are known.

        Raises:
            GathersError: the file is not to be taken alone, and its format wants all files at once.
            SegmentError: a file cannot be read or a segment not written; the message names it.
        """
        try:
            if self._paths != ["-"]:
                return self._run()
            with opened("-") as spool:
                self._reopened = lambda _: nullcontext(spool)
                return self._run()
        except OSError as error:
            raise SegmentError(f"{self._path} was not ingested: {error}. Running it again completes it.") from error
        except PoolError as error:
            raise SegmentError(
                f"{self._path} was not ingested: a process that read it died, most likely because memory ran out. "
                "Running it again completes it; with FLYWHEEL_POOL_PROCESSES=1 one process reads it"
            ) from error

    def _run(self) -> int | None:
        digest = self._digest()
        receipt = self._folder / f"{self._request.name_of(digest)}{RECEIPT_SUFFIX}"
        if receipt.exists():
            self.account = decode_account(receipt.read_bytes())
            if not self._alone and (name := next(filter(gathers, sorted(self.account.formats)), None)):
                raise GathersError(name)
            return None
        if (self._folder / f"ingest-{digest}-last{CLOSED_SUFFIX}").exists():
            return None  # taken by a version that wrote no receipts
        written = 0
        with closing(self._payloads()) as payloads:
            for index, part in enumerate(_parts(payloads)):
                path = self._folder / f"{self._request.name_of(digest)}-{index:06d}{CLOSED_SUFFIX}"
                if not path.exists():
                    write_closed_segment(path, part)
                    written += 1
        self._account_for_tasks()
        write_receipt(receipt, self.account)
        return written

    def _digest(self) -> str:
        """Of the content of all files, in whatever order and by whatever names they are given; sorts them by it."""
        digests = {self._digest_of(path): path for path in self._paths}
        if len(digests) == 1:
            return next(iter(digests))
        self._paths = [digests[digest] for digest in sorted(digests)]
        return hashlib.blake2b("".join(sorted(digests)).encode(), digest_size=20).hexdigest()

    def _digest_of(self, path: str) -> str:
        self._path = path
        with self._reopened(path) as file:
            status = os.fstat(file.fileno())
            state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if state not in self._digests:
                digest = hashlib.file_digest(cast(FileIO, file), partial(hashlib.blake2b, digest_size=20))
                self._digests[state] = digest.hexdigest()
                file.seek(0)
            self.size += status.st_size
            return self._digests[state]

    def _passed(self, size: int) -> None:
        if self._progress is not None:
            self._progress(self._path, size)

    def _payloads(self) -> Generator[bytes, None, None]:
        with ExitStack() as stack:
            for path in self._paths:
                self._path = path
                with self._reopened(path) as file:
                    yield from self._of_file(file, stack)
            for gatherer, gathered in self._gathered.values():
                yield from self._of_gathered(gatherer, gathered)

    def _of_file(self, file: BinaryIO, stack: ExitStack) -> Iterator[bytes]:
        found = documents(self._path, file, whole=self._is_whole, passed=self._passed)
        with closing(found):
            for document in found:
                if isinstance(document, Unopened):
                    self._reject(document.rejected, document.name)
                    continue
                importer = self._importer_of(document.opening)
                if isinstance(importer, Rejected):
                    self._reject(importer, document.name)
                elif is_gatherer(importer):
                    self._gather(importer, document, stack)
                else:
                    self._alone = True
                    yield from self._of_document(document, importer)

    def _reject(self, rejected: Rejected, name: str) -> None:
        self.account.read += 1
        self.account.reject(rejected, name)

    def _is_whole(self, opening: Opening) -> bool:
        return recognized(opening) is not None

    def _of_document(self, document: Document, importer: Importer) -> Iterator[bytes]:
        self.account.formats.add(importer.name)
        terms = self._terms(importer, document.written_at)
        for entry in entries_of_document(document, importer, terms, processes=self._processes):
            yield from self._payloads_of(entry, document.name)

    def _gather(self, importer: Gatherer, document: Document, stack: ExitStack) -> None:
        """Put the document's rows down; they become runs when all documents were read.

        Raises:
            GathersError: other files may have rows of the same runs.
        """
        if not self._alone:
            raise GathersError(importer.name)
        if importer.name not in self._gathered:
            self.account.formats.add(importer.name)
            self._gathered[importer.name] = importer, stack.enter_context(gathering())
        _, gathered = self._gathered[importer.name]
        self._sources.append((document.name, document.written_at))
        for row in rows_of_document(document, importer, processes=self._processes):
            if isinstance(row, Rejected):
                self._reject(row, document.name)
            else:
                gathered.add(row, len(self._sources) - 1)

    def _of_gathered(self, importer: Gatherer, gathered: Gathering) -> Iterator[bytes]:
        groups = (
            SourcedGroup(source, self._terms(importer, self._sources[source][1]), group)
            for source, group in gathered.groups()
        )
        for source, entry in entries_of_groups(groups, importer, processes=self._processes):
            yield from self._payloads_of(entry, self._sources[source][0])

    def _terms(self, importer: AnyImporter, written_at: datetime | None) -> Terms:
        return Terms(
            format=importer.name,
            tenant_id=self._request.tenant_id,
            task_type=self._request.task_type,
            mapping=self._request.mapping,
            written_at=written_at,
        )

    def _importer_of(self, opening: Opening) -> AnyImporter | Rejected:
        if self._request.format:
            importer: AnyImporter | None = importer_of(self._request.format)
        else:
            importer = recognized(opening)
        if importer is None:
            detail = "name it with --format, if it is one that flywheel ingest knows"
            return Rejected(reason="unknown format", detail=detail, line=1)
        if not importer.rewarded and self._request.mapping.reward is None:
            return Rejected(reason="no mapping", detail=asking_for_mapping(importer.name))
        return importer

    def _payloads_of(self, entry: Entry, name: str) -> Iterator[bytes]:
        self.account.read += 1
        if isinstance(entry, Rejected):
            self.account.reject(entry, name)
        elif isinstance(entry, Line):
            yield from self._of_line(entry, name)
        else:
            before = self._place(hash(entry.payloads))
            if before is None:
                self.account.take(entry.tally)
            else:
                self.account.duplicates += 1
            if before != self._number:  # what another file has is written: whether that one was imported may change
                yield from entry.payloads

    def _of_line(self, line: Line, name: str) -> Iterator[bytes]:
        before = self._place(hash(line.payload))
        if line.problem is not None:
            self.account.reject(line.problem, name)
        elif before is not None:
            self.account.duplicates += 1
        elif line.log is not None:
            self.account.take(tally_of_logs((line.log,)))
            task = hash(line.log.task_id)
            self._seen.tasks[task] = self._seen.tasks.get(task, 0) | KINDS[type(line.log)]
        yield line.payload

    def _place(self, digest: int) -> int | None:
        """The number of the file that had the content of this hash before, which is noted if there was none."""
        before = self._seen.files.get(digest)
        if before is None:
            self._seen.files[digest] = self._number
        return before

    def _account_for_tasks(self) -> None:
        masks = self._seen.tasks.values()
        joined = sum(mask == JOINED for mask in masks)
        self.account.points += joined
        self.account.waiting += len(masks) - joined
        self._seen.tasks.clear()


def gathers(name: str) -> bool:
    """Whether the format of this name wants all of its files at once; not if its package is gone."""
    return any(importer.name == name and is_gatherer(importer) for importer in importers())


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


def write_receipt(path: Path, account: Account) -> None:
    """Say that a file was taken, and how much was in it; complete or not at all.

    Examples of rejections stay out: they quote the source, and a receipt outlives the erasure of a tenant.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(msgspec.json.encode(replace(account, examples=[])))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def asking_for_mapping(name: str) -> str:
    """What a person is asked who imports a format that does not say which outcome is good."""
    return (
        f"{name} does not say which of its scores is the reward, its range, or whether more is better; say it in a "
        'file and give it with --mapping: [reward] score = "helpfulness", min = 1, max = 5, direction = "higher", '
        "threshold = 0.75; or [reward] constant = 1.0 for what people have curated (docs/importers.md)"
    )
