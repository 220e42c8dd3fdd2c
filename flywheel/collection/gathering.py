"""Rows of documents gathered by the run they are of: on disk, so that memory stays bounded.

What rows hold lies in a file in the order in which they came; a database knows where.
"""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import IO, Any

from flywheel.collection.importers.interface import Group, Rejected, Row

SCHEMA = "CREATE TABLE rows (key TEXT, kind TEXT, at TEXT, size INTEGER, start INTEGER, document INTEGER, line INTEGER)"
IN_ORDER = "SELECT key, kind, size, start, rowid, document, line FROM rows ORDER BY key, at, rowid"
PENDING_ROWS = 1000
BUFFER_BYTES = 1024 * 1024
MAX_RUN_BYTES = 64 * 1024 * 1024
"""Of the rows of one run, which are held in memory together."""


class Gathering:
    """What was put down so far."""

    def __init__(self, rows: sqlite3.Connection, contents: IO[bytes]) -> None:
        self._rows, self._contents = rows, contents
        self._pending: list[tuple[str, str, str, int, int, int, int]] = []
        self._end = 0

    def add(self, row: Row, document: int) -> None:
        """Put a row of a document down; documents have numbers.

        Raises:
            OSError: there is no room for it.
        """
        size = len(row.raw)
        try:
            self._contents.write(row.raw)
        except OSError as error:
            raise without_room(error) from error
        self._pending.append((row.key, row.kind, row.at, size, self._end, document, row.line))
        self._end += size
        if len(self._pending) >= PENDING_ROWS:
            self._write()

    def _write(self) -> None:
        self._rows.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", self._pending)
        self._pending.clear()

    def groups(self) -> Iterator[tuple[int, Group | Rejected]]:
        """The rows by key, with the number of the document that had the first; too large a group is rejected.

        Raises:
            OSError: there is no room for what is still to be put down.
        """
        self._write()
        try:
            self._contents.flush()
        except OSError as error:
            raise without_room(error) from error
        for key, rows in groupby(self._rows.execute(IN_ORDER), itemgetter(0)):
            yield self._group(key, rows)

    def _group(self, key: str, rows: Iterator[tuple[Any, ...]]) -> tuple[int, Group | Rejected]:
        kept: list[tuple[str, int, int]] = []
        whole, first = 0, (sys.maxsize, 0, 0)
        for _, kind, size, start, rowid, document, line in rows:
            first = min(first, (rowid, document, line))
            whole += size
            if whole <= MAX_RUN_BYTES:
                kept.append((kind, size, start))
        _, document, line = first
        if whole > MAX_RUN_BYTES:
            detail = f"its rows have {whole:,} bytes, those of a run may have {MAX_RUN_BYTES:,}"
            return document, Rejected(reason="record too large", detail=detail, line=line, item=key)
        contents = tuple((kind, os.pread(self._contents.fileno(), size, start)) for kind, size, start in kept)
        return document, Group(key=key, line=line, rows=contents)


def without_room(error: Exception) -> OSError:
    """The error that rows cannot be put down, with what is to be done."""
    return OSError(f"{error}; the folder TMPDIR needs room for what is gathered")


@contextmanager
def gathering() -> Iterator[Gathering]:
    """A place for rows, which is gone afterwards: its files have no names, so a killed process leaves none behind.

    Raises:
        OSError: the temporary folder cannot be written, or is full.
    """
    contents = tempfile.TemporaryFile(buffering=BUFFER_BYTES)  # noqa: SIM115 - closing it may fail
    rows = sqlite3.connect("", isolation_level=None)  # SQLite's name for a temporary database on disk
    try:
        rows.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {SCHEMA}; BEGIN")
        yield Gathering(rows, contents)
    except sqlite3.Error as error:
        raise without_room(error) from error
    finally:
        rows.close()
        with suppress(OSError):  # what a full disk did not take is wanted no more
            contents.close()
