"""Verifying the audit trail, from PostgreSQL or from a file that was exported: in one pass, in constant memory.

An exported trail is JSON lines: the first one names the format, each other is an entry. Contents are texts within it,
to the byte as they were signed.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail.chain import Entry, Finding, Read, Walk, first_finding
from flywheel.arbiter.audit_trail.heads import Head
from flywheel.arbiter.audit_trail.trail import missing_guards, read_trail
from flywheel.collection.segments import write_whole
from flywheel.errors import AuditTrailError
from flywheel.records import Timestamp, Wire


class Report(Struct, frozen=True, kw_only=True):
    """What came of verifying.

    Attributes:
        intact: nothing is wrong.
        entries: that were walked along; up to the finding, where there is one.
        verdicts: entries of verdicts whose content is there.
        erased: entries of verdicts whose content was removed by an erasure.
        keys: ids of the keys that signed, oldest first.
        heads: against how many signed heads the trail was held. None: what was cut off its end is not noticed.
        last_hash: of the last entry, 64 hex digits.
        finding: where it is not as it was written, first of all.
        guards: triggers that should hold the tables and do not.
    """

    intact: bool
    entries: int
    verdicts: int
    erased: int
    keys: tuple[str, ...]
    heads: int
    first_at: datetime | None
    last_at: datetime | None
    last_hash: str
    finding: Finding | None
    guards: tuple[str, ...] = ()


class Header(Wire, frozen=True, kw_only=True):
    """The first line of an exported trail."""

    format: Literal["flywheel-audit-trail"]
    version: Literal[1]


class ExportedEntry(Wire, frozen=True, kw_only=True):
    """A line of an exported trail; bytes are in hex."""

    sequence: int
    previous: str
    hash: str
    kind: str
    at: Timestamp
    content_digest: str
    verdict_signature: str | None
    signature: str
    content: str | None
    erased_in: int | None


def verify_trail(engine: Engine, *, heads: Collection[Head] = (), trusted: Collection[str] = ()) -> Report:
    """Walk along the trail as it is now; what is appended meanwhile is not looked at.

    Args:
        engine: of the database that has it.
        heads: that it must contain; read them before this is called.
        trusted: ids of keys that it may begin with, or go on with after a loss; none: the first entry's.

    Raises:
        AccessError: this database user is shown a part of it alone.
        DatabaseError: PostgreSQL cannot be used.
    """
    options = {"isolation_level": "REPEATABLE READ"}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        guards = tuple(missing_guards(connection))
        return _report(read_trail(connection), heads=heads, trusted=trusted, guards=guards)


def verify_file(path: Path, *, heads: Collection[Head] = (), trusted: Collection[str] = ()) -> Report:
    """The same for an exported trail; it needs neither a database nor a private key.

    Raises:
        AuditTrailError: the file cannot be read, or is none.
    """
    return _report(read_export(path), heads=heads, trusted=trusted)


def export_trail(engine: Engine, path: Path) -> int:
    """Write the whole trail to a file, which appears complete or not at all. Returns how many entries it has.

    Raises:
        AccessError: this database user is shown a part of it alone.
        OSError: the file cannot be written.
        DatabaseError: PostgreSQL cannot be used.
    """
    count = 0

    def lines(reads: Iterable[Read]) -> Iterator[bytes]:
        nonlocal count
        yield msgspec.json.encode(Header(format="flywheel-audit-trail", version=1)) + b"\n"
        for read in reads:
            count += 1
            yield msgspec.json.encode(_exported(read)) + b"\n"

    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        write_whole(path, lines(read_trail(connection)))
    return count


def read_export(path: Path) -> Iterator[Read]:
    """The entries of an exported trail.

    Raises:
        AuditTrailError: the file cannot be read, or a line is none.
    """
    read = 0
    try:
        with path.open("rb") as file:
            msgspec.json.decode(file.readline(), type=Header)
            for line in file:
                read += 1
                yield _read(msgspec.json.decode(line, type=ExportedEntry))
    except OSError as error:
        raise AuditTrailError(f"the exported trail {path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise AuditTrailError(f"{path} is no exported audit trail: line {read + 1}: {error}") from error


def _report(
    reads: Iterable[Read], *, heads: Collection[Head], trusted: Collection[str], guards: tuple[str, ...] = ()
) -> Report:
    walk = Walk(heads=heads, trusted=trusted)
    finding = first_finding(reads, walk)
    return Report(
        intact=finding is None and not guards,
        entries=walk.sequence,
        verdicts=walk.verdicts,
        erased=walk.erased,
        keys=tuple(walk.keys),
        heads=len(heads),
        first_at=walk.first_at,
        last_at=walk.last_at,
        last_hash=walk.hash.hex(),
        finding=finding,
        guards=guards,
    )


def _exported(read: Read) -> ExportedEntry:
    entry = read.entry
    return ExportedEntry(
        sequence=entry.sequence,
        previous=entry.previous.hex(),
        hash=entry.hash.hex(),
        kind=entry.kind,
        at=entry.at,
        content_digest=entry.content_digest.hex(),
        verdict_signature=entry.verdict_signature,
        signature=entry.signature,
        content=None if read.content is None else read.content.decode(errors="replace"),
        erased_in=read.erased_in,
    )


def _read(line: ExportedEntry) -> Read:
    entry = Entry(
        sequence=line.sequence,
        previous=bytes.fromhex(line.previous),
        hash=bytes.fromhex(line.hash),
        kind=line.kind,
        at=line.at,
        content_digest=bytes.fromhex(line.content_digest),
        verdict_signature=line.verdict_signature,
        signature=line.signature,
    )
    return Read(entry=entry, content=None if line.content is None else line.content.encode(), erased_in=line.erased_in)
