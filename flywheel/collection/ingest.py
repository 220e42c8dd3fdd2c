"""Brings traces and logs that people have into the pool's segments, whatever their format, and accounts for them.

A file's segments are named by a digest of its content and of the terms it is imported on. Its receipt, written last,
says that it is complete and what was in it: the same file again adds nothing, and a killed run is completed by running
it again. Within one import two runs may write the same file at once: they write the same.

Of formats whose runs are spread over files (``Gatherer``) all files of an import are taken as one: another set of them
is another import, since a file that is new may have parts of runs that the others have.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flywheel.collection.documents import expanded
from flywheel.collection.fidelity import Account, FidelityReport, report_of
from flywheel.collection.importers.registry import importer_of
from flywheel.collection.taking import GathersError, Import, Request, Taking

COLLECTED = (100_000, 20, 20)
"""When Python looks for cycles, by objects made: what an import holds at a time is a few records."""
__all__ = ["Request", "ingest"]


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let Python look for cycles seldom: decoded JSON has none, and looking through it takes a fifth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTED)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def ingest(
    paths: Sequence[str],
    segments_dir: Path,
    request: Request | None = None,
    *,
    progress: Callable[[str, int], None] | None = None,
    processes: int = 1,
) -> FidelityReport:
    """Take files, folders, globs or standard input (``-``).

    Args:
        paths: what to take.
        segments_dir: where the logs go.
        request: how they are to be taken.
        progress: hears the file's name and bytes read of it, as they are read.
        processes: that decode a large document side by side, besides this one; 1: none but this one.

    Raises:
        ConfigurationError: the format asked for does not exist.
        SegmentError: a file cannot be read or a segment not written; the message names it.
    """
    request = request or Request()
    if request.format:
        importer_of(request.format)
    started = time.monotonic()
    segments_dir.mkdir(parents=True, exist_ok=True)
    importing = Import(segments_dir, request, progress, processes)
    total, counts = Account(), {"files": 0, "known_files": 0, "bytes": 0, "segments": 0}

    def take(several: list[str], *, alone: bool) -> None:
        taken = Taking(several, importing, alone=alone)
        segments = taken.run()
        known = segments is None
        total.merge(taken.account.as_known() if known else taken.account)
        counts["known_files" if known else "files"] += len(several)
        counts["bytes"] += 0 if known else taken.size
        counts["segments"] += segments or 0

    together: dict[str, list[str]] = {}
    with seldom_collected():
        for path in expanded(list(paths)):
            try:
                take([path], alone=path == "-")
            except GathersError as gathers:
                together.setdefault(gathers.format, []).append(path)
        for several in together.values():
            take(several, alone=True)
    return report_of(total, seconds=time.monotonic() - started, **counts)
