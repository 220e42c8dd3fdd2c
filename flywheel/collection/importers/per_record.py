"""The frame that importers share: a record is decoded, becomes a run, or is turned away with its place."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flywheel.collection.importers.fields import MalformedError
from flywheel.collection.importers.interface import Rejected, Run
from flywheel.collection.json_records import Record, records

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

NOT_OF_FORMAT = "not of the format"


def each_run(document: "Document", run_of: Callable[[Record], Run | Rejected]) -> Iterator[Run | Rejected]:
    """What ``run_of`` makes of each record of a document; ``MalformedError`` becomes a rejection."""
    for record in records(document):
        yield record if isinstance(record, Rejected) else attempt(run_of, record)


def attempt(run_of: Callable[[Record], Run | Rejected], record: Record) -> Run | Rejected:
    """One record's run, or why it has none, with its place."""
    try:
        run = run_of(record)
    except MalformedError as error:
        return Rejected(reason=NOT_OF_FORMAT, detail=str(error), line=record.line, item=record.item)
    if isinstance(run, Rejected):
        return replace(run, line=run.line or record.line, item=run.item or record.item)
    return run
