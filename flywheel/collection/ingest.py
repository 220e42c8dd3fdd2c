"""Brings traces and logs that people have into the pool's segments, whatever their format, and accounts for them.

A file's segments are named by a digest of its content and of the terms it is imported on. Its receipt, written last,
says that it is complete and what was in it: the same file again adds nothing, and a killed run is completed by running
it again. Within one import two runs may write the same file at once: they write the same.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flywheel.collection.completion import Terms, complete
from flywheel.collection.documents import UNREADABLE, Document, Unopened, documents, expanded, opened, rejection_of
from flywheel.collection.fidelity import Account, FidelityReport, report_of
from flywheel.collection.importers.interface import Importer, Line, Logs, Opening, Outcome, Rejected, Run
from flywheel.collection.importers.registry import importer_of, recognized
from flywheel.collection.mapping import Mapping
from flywheel.collection.segments import CLOSED_SUFFIX, MAX_PAYLOAD_BYTES, write_closed_segment
from flywheel.errors import SegmentError
from flywheel.records import Evaluation, Execution, Feedback, Log, RoutingDecision, encode

SEGMENT_BYTES = 16 * 1024 * 1024
RECEIPT_SUFFIX = ".receipt.json"
RULES_VERSION = 1
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
    """Digests of what was written, by the number of the file it was in, and the native tasks by their logs."""

    files: dict[int, int] = {}
    tasks: dict[int, int] = {}


def ingest(
    paths: Sequence[str],
    segments_dir: Path,
    request: Request | None = None,
    *,
    progress: Callable[[str, int], None] | None = None,
) -> FidelityReport:
    """Take files, folders, globs or standard input (``-``).

    ``progress`` hears the file's name and bytes read of it, as they are read.

    Raises:
        ConfigurationError: the format asked for does not exist.
        SegmentError: a file cannot be read or a segment not written; the message names it.
    """
    request = request or Request()
    if request.format:
        importer_of(request.format)
    started = time.monotonic()
    segments_dir.mkdir(parents=True, exist_ok=True)
    total, seen = Account(), Seen()
    counts = {"files": 0, "known_files": 0, "bytes": 0, "segments": 0}
    for number, path in enumerate(expanded(list(paths))):
        try:
            with opened(path) as file:
                taken = _Taking(path, file, segments_dir, request=request, seen=seen, number=number, progress=progress)
                account, segments = taken.account, taken.run()
        except OSError as error:
            raise SegmentError(f"{path} was not ingested: {error}. Running it again completes it.") from error
        known = segments is None
        total.merge(taken.account.as_known() if known else account)
        counts["known_files" if known else "files"] += 1
        counts["bytes"] += 0 if known else taken.size
        counts["segments"] += segments or 0
    return report_of(total, seconds=time.monotonic() - started, **counts)


class _Taking:
    """One file on its way into segments."""

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        folder: Path,
        *,
        request: Request,
        seen: Seen,
        number: int,
        progress: Callable[[str, int], None] | None,
    ) -> None:
        self.account = Account()
        self.size = 0
        self._path, self._file, self._folder = path, file, folder
        self._request, self._seen, self._number = request, seen, number
        self._progress = progress

    def run(self) -> int | None:
        """Write the file's segments; returns how many, or None where it is known."""
        digest = self._digest()
        receipt = self._folder / f"{self._request.name_of(digest)}{RECEIPT_SUFFIX}"
        if receipt.exists():
            self.account = decode_account(receipt.read_bytes())
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
        digest = hashlib.blake2b(digest_size=20)
        self._file.seek(0)
        while block := self._file.read(1 << 20):
            digest.update(block)
            self.size += len(block)
        self._file.seek(0)
        return digest.hexdigest()

    def _passed(self, size: int) -> None:
        if self._progress is not None:
            self._progress(self._path, size)

    def _payloads(self) -> Generator[bytes, None, None]:
        found = documents(self._path, self._file, whole=self._is_whole, passed=self._passed)
        with closing(found):
            for document in found:
                if isinstance(document, Unopened):
                    self.account.read += 1
                    self.account.reject(document.rejected, document.name)
                else:
                    yield from self._of_document(document)

    def _is_whole(self, opening: Opening) -> bool:
        return recognized(opening) is not None

    def _of_document(self, document: Document) -> Iterator[bytes]:
        importer = self._importer_of(document.opening)
        if isinstance(importer, Rejected):
            self.account.read += 1
            self.account.reject(importer, document.name)
            return
        self.account.formats.add(importer.name)
        terms = Terms(
            format=importer.name,
            tenant_id=self._request.tenant_id,
            task_type=self._request.task_type,
            mapping=self._request.mapping,
            written_at=document.written_at,
        )
        outcomes = importer.runs(document)
        while (outcome := self._next(outcomes)) is not None:
            self.account.read += 1
            if isinstance(outcome, Rejected):
                self.account.reject(outcome, document.name)
            else:
                yield from self._payloads_of(outcome, terms, document.name)

    def _importer_of(self, opening: Opening) -> Importer | Rejected:
        if self._request.format:
            importer: Importer | None = importer_of(self._request.format)
        else:
            importer = recognized(opening)
        if importer is None:
            detail = "name it with --format, if it is one that flywheel ingest knows"
            return Rejected(reason="unknown format", detail=detail, line=1)
        if not importer.rewarded and self._request.mapping.reward is None:
            return Rejected(reason="no mapping", detail=asking_for_mapping(importer.name))
        return importer

    @staticmethod
    def _next(outcomes: Iterator[Outcome]) -> Outcome | None:
        try:
            return next(outcomes, None)
        except UNREADABLE as error:
            return rejection_of(error)

    def _payloads_of(self, outcome: Run | Logs | Line, terms: Terms, name: str) -> Iterator[bytes]:
        if isinstance(outcome, Line):
            yield from self._of_line(outcome, name)
            return
        completed = complete(outcome, terms) if isinstance(outcome, Run) else None
        if isinstance(completed, Rejected):
            self.account.reject(completed, name)
            return
        payloads = [encode(log) for log in (outcome.logs if isinstance(outcome, Logs) else completed.logs)]  # type: ignore[union-attr]
        if (largest := max(map(len, payloads))) > MAX_PAYLOAD_BYTES:
            self.account.reject(Rejected(reason="record too large", detail=f"a log of it has {largest:,} bytes"), name)
            return
        before = self._place(b"".join(payloads))
        if before is not None:
            self.account.duplicates += 1
        elif isinstance(outcome, Logs):
            self.account.take_logs(outcome.logs)
        elif completed is not None:
            self.account.take(outcome, completed)
        if before != self._number:  # what another file has is written: whether that one was imported may change
            yield from payloads

    def _of_line(self, line: Line, name: str) -> Iterator[bytes]:
        before = self._place(line.payload)
        if line.problem is not None:
            self.account.reject(line.problem, name)
        elif before is not None:
            self.account.duplicates += 1
        elif line.log is not None:
            self.account.take_log(line.log)
            task = hash_of(line.log.task_id.encode(errors="surrogatepass"))
            self._seen.tasks[task] = self._seen.tasks.get(task, 0) | KINDS[type(line.log)]
        yield line.payload

    def _place(self, content: bytes) -> int | None:
        """The number of the file that had this content before, which is noted if there was none."""
        digest = hash_of(content)
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


def hash_of(content: bytes) -> int:
    """A digest that fits a machine word: two of a billion contents share one with a chance of 1 to 40."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


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
