"""Large documents read in parts, by several processes side by side; what comes of them is in the document's order.

One process reads the files, cuts them into records and writes; those beside it decode records and make logs of them.
What is read is the same in however many parts.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from io import BytesIO
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from msgspec import Struct
from typing_extensions import override

from flywheel.collection.completion import Terms
from flywheel.collection.documents import UNREADABLE, Document, rejection_of
from flywheel.collection.entries import Entry, entry_of
from flywheel.collection.importers.interface import (
    Divisible,
    Gatherer,
    Group,
    Importer,
    Opening,
    Outcome,
    Rejected,
    Row,
    is_divisible,
)
from flywheel.collection.json_records import RawRecord, is_lines, opens_json
from flywheel.pool.workers import mapped

PART_BYTES = 4 * 1024 * 1024
PART_RECORDS = 2000
PARTS_FOR_PROCESSES = 16  # reading these takes as long as starting the processes
Item = TypeVar("Item")
Result = TypeVar("Result")


class Part(Struct, frozen=True, kw_only=True):
    """Consecutive records of a document, and what rejections are among them.

    Attributes:
        opening: of the document, as ``written_at``.
        header: what stands around the list that the first of them are of, where it is in an earlier part.
    """

    opening: Opening
    written_at: datetime | None
    header: RawRecord | None
    records: list[RawRecord | Rejected]


class SourcedGroup(NamedTuple):
    """The rows of one run, with the number and the terms of the source where its first one was."""

    source: int
    terms: Terms
    group: Group | Rejected


class Excerpt(Document):
    """A part as a document. Until it has ``begun``, what an importer says is of the header, and was said before."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.opening, BytesIO(), part.written_at)
        self._part = part
        self.begun = False

    @override
    def raw_records(self, lists: tuple[str, ...]) -> Iterator[RawRecord | Rejected]:
        if self._part.header is not None:
            yield self._part.header
        self.begun = True
        yield from self._part.records


def entries_of_document(document: Document, importer: Importer, terms: Terms, *, processes: int) -> Iterator[Entry]:
    """What becomes of the document's records, in order."""
    if is_divisible(importer) and opens_json(document.opening.head):
        read = partial(entries_of_part, importer=importer, terms=terms)
        yield from side_by_side(read, parts(document, importer), processes=processes)
    else:
        for outcome in readable(importer.runs(document)):
            yield entry_of(outcome, terms)


def rows_of_document(document: Document, importer: Gatherer, *, processes: int) -> Iterator[Row | Rejected]:
    """The parts of runs that the document has, in order."""
    if is_divisible(importer) and opens_json(document.opening.head):
        yield from side_by_side(
            partial(rows_of_part, importer=importer), parts(document, importer), processes=processes
        )
    else:
        yield from readable(importer.rows(document))


def side_by_side(read: Callable[[Item], list[Result]], items: Iterable[Item], *, processes: int) -> Iterator[Result]:
    """What is read of each item, in order; the first ones by this process, what is beyond them by others."""
    items = iter(items)
    for item in islice(items, PARTS_FOR_PROCESSES):
        yield from read(item)
    for item in items:
        for some in mapped(read, chain((item,), items), processes=processes):
            yield from some


def entries_of_groups(
    groups: Iterable[SourcedGroup], importer: Gatherer, *, processes: int
) -> Iterator[tuple[int, Entry]]:
    """What becomes of the rows of each run, in order, with the number of its source."""
    read = partial(entries_of_portion, importer=importer)
    yield from side_by_side(read, portions(groups, size_of_group), processes=processes)


def parts(document: Document, importer: Divisible) -> Iterator[Part]:
    """The document in parts."""
    header: RawRecord | None = None
    opening, written_at = document.opening, document.written_at
    enclosed = bool(importer.lists) and not is_lines(opening.head, opening.name)
    for records in portions(readable(document.raw_records(importer.lists)), size_of_record):
        yield Part(opening=opening, written_at=written_at, header=header, records=records)
        if enclosed:
            around = (one for one in reversed(records) if isinstance(one, RawRecord) and not one.key)
            header = next(around, header)


def portions(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """The items, in lists of about ``PART_BYTES`` and at most ``PART_RECORDS``."""
    portion: list[Item] = []
    size = 0
    for item in items:
        portion.append(item)
        size += size_of(item)
        if size >= PART_BYTES or len(portion) >= PART_RECORDS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def size_of_record(record: RawRecord | Rejected) -> int:
    """Bytes of a record."""
    return 0 if isinstance(record, Rejected) else len(record.raw)


def size_of_group(sourced: SourcedGroup) -> int:
    """Bytes of a group's rows."""
    return 0 if isinstance(sourced.group, Rejected) else sum(len(raw) for _, raw in sourced.group.rows)


def entries_of_part(part: Part, *, importer: Importer, terms: Terms) -> list[Entry]:
    """What becomes of the records of a part. Runs in any process."""
    excerpt = Excerpt(part)
    return [entry_of(outcome, terms) for outcome in readable(importer.runs(excerpt)) if excerpt.begun]


def rows_of_part(part: Part, *, importer: Gatherer) -> list[Row | Rejected]:
    """The parts of runs that a part has. Runs in any process."""
    excerpt = Excerpt(part)
    return [row for row in readable(importer.rows(excerpt)) if excerpt.begun]


def entries_of_portion(groups: list[SourcedGroup], *, importer: Gatherer) -> list[tuple[int, Entry]]:
    """What becomes of some runs. Runs in any process."""
    return [(source, entry_of(outcome_of(group, importer), terms)) for source, terms, group in groups]


def outcome_of(group: Group | Rejected, importer: Gatherer) -> Outcome:
    """What becomes of the rows of one run, if they are not too many."""
    return group if isinstance(group, Rejected) else importer.outcome(group)


def readable(records: Iterator[Item]) -> Iterator[Item | Rejected]:
    """What can be read, and why it ends where it cannot."""
    try:
        yield from records
    except UNREADABLE as error:
        yield rejection_of(error)
