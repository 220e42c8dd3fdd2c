"""A change of files: what an answer to a coding task comes to, whichever form it came in."""

from msgspec import Struct


class FileChange(Struct, frozen=True, kw_only=True):
    """One file before and after. None: there is no such file.

    ``path`` is relative to the workspace, with forward slashes, and the one after where the file was renamed;
    ``old_path`` is the one before then.
    """

    path: str
    before: str | None
    after: str | None
    old_path: str | None = None

    def __post_init__(self) -> None:
        if self.before is None and self.after is None:
            raise ValueError(f"{self.path} is there neither before nor after the change")


class Change(Struct, frozen=True, kw_only=True):
    """The files that differ, by path. A file that is the same before and after is in none."""

    files: tuple[FileChange, ...]
