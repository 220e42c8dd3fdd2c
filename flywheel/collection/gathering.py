"""Rows of documents gathered by the run they are of: in a database on disk, so that memory stays bounded."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from flywheel.collection.importers.interface import Group, Rejected, Row

SCHEMA = "CREATE TABLE rows (key TEXT, kind TEXT, at TEXT, size INTEGER, document INTEGER, line INTEGER, raw BLOB)"
PENDING_BYTES = 1024 * 1024
MAX_RUN_BYTES = 64 * 1024 * 1024
"""Of the rows of one run, which are held in memory together."""


class Gathering:
    """What was put down so far."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows
        self._pending: list[tuple[str, str, str, int, int, int, bytes]] = []
        self._pending_bytes = 0

    def add(self, row: Row, document: int) -> None:
        """Put a row of a document down; documents have numbers."""
        size = len(row.raw)
        self._pending.append((row.key, row.kind, row.at, size, document, row.line, row.raw))
        self._pending_bytes += size
        if self._pending_bytes >= PENDING_BYTES:
            self._write()

    def _write(self) -> None:
        self._rows.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", self._pending)
        self._pending.clear()
        self._pending_bytes = 0

    def groups(self) -> Iterator[tuple[int, Group | Rejected]]:
        """The rows by key, with the number of the document that had the first; too large a group is rejected."""
        self._write()
        self._rows.execute("CREATE INDEX by_key ON rows (key, at, size)")
        found = self._rows.execute("SELECT key, sum(size), min(rowid) FROM rows GROUP BY key ORDER BY key")
        for key, size, first in found:
            document, line = self._rows.execute("SELECT document, line FROM rows WHERE rowid = ?", (first,)).fetchone()
            if size > MAX_RUN_BYTES:
                detail = f"its rows have {size:,} bytes, those of a run may have {MAX_RUN_BYTES:,}"
                yield document, Rejected(reason="record too large", detail=detail, line=line, item=key)
            else:
                rows = self._rows.execute("SELECT kind, raw FROM rows WHERE key = ? ORDER BY at, rowid", (key,))
                yield document, Group(key=key, line=line, rows=tuple(rows))


@contextmanager
def gathering() -> Iterator[Gathering]:
    """A place for rows, which is gone afterwards: its file has no name, so a killed process leaves none behind.

    Raises:
        OSError: the temporary folder cannot be written, or is full.
    """
    rows = sqlite3.connect("", isolation_level=None)  # SQLite's name for a temporary database on disk
    try:
        rows.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {SCHEMA}; BEGIN")
        yield Gathering(rows)
    except sqlite3.Error as error:
        raise OSError(f"{error}; the folder TMPDIR needs room for what is gathered") from error
    finally:
        rows.close()
