"""How far something is: what subprocesses print and training jobs write (``progress.json``)."""

from pathlib import Path

import msgspec
from msgspec import Struct


class ProgressLine(Struct, frozen=True, kw_only=True):
    """One report. ``total`` is absent while it is unknown."""

    done: int = 0
    total: int | None = None
    message: str = ""
    stage: str = ""


def newest_progress(folder: Path, *, since: float = 0.0) -> ProgressLine | None:
    """The report of the training job of a batch that wrote last: ``FOLDER/STAGE/progress.json``.

    Args:
        folder: of the batch.
        since: reports older than this, in seconds since 1970, are of an earlier step.

    Jobs write whole files by rename, so one that cannot be decoded is no report of theirs, and an error.
    """
    files = sorted((path.stat().st_mtime, path) for path in folder.glob("*/progress.json"))
    if not files or files[-1][0] < since:
        return None
    return msgspec.json.decode(files[-1][1].read_bytes(), type=ProgressLine)
