"""Follows a folder: what comes into it and is no longer written to is taken."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from flywheel.collection.documents import files_below
from flywheel.collection.fidelity import FidelityReport
from flywheel.collection.ingest import Request, ingest

Look = tuple[int, int]


def watched(
    folder: Path,
    segments_dir: Path,
    request: Request,
    *,
    every_s: float,
    processes: int = 1,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[FidelityReport]:
    """A report whenever files were taken, without end.

    A file is taken when two looks found it the same, so that nobody writes to it any more. Receipts tell after a new
    start what was taken: only its digest is read again. A file that grows is another file: its native lines that were
    there before count as duplicates, as do its runs.

    Raises:
        SegmentError: a file cannot be read or a segment not written.
    """
    seen: dict[str, Look] = {}
    taken: dict[str, Look] = {}
    while True:
        now = looks(folder)
        settled = [path for path, look in now.items() if seen.get(path) == look and taken.get(path) != look]
        seen = now
        taken = {path: look for path, look in taken.items() if path in now}
        if settled:
            report = ingest(settled, segments_dir, request, processes=processes)
            taken |= {path: now[path] for path in settled}
            if report.files:
                yield report
        sleep(every_s)


def looks(folder: Path) -> dict[str, Look]:
    """The folder's files, each with its size and when it changed."""
    found = {}
    for path in files_below(str(folder)):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            continue  # it was moved away meanwhile
        found[path] = (status.st_size, status.st_mtime_ns)
    return found
