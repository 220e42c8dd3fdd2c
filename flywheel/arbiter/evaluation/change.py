"""A change of files: what an answer to a coding task comes to, whichever form it came in.

``patches`` reads unified diffs, ``folders`` compares two trees of files, ``changed_lines`` says which lines differ.
"""

from msgspec import Struct


class Hunk(Struct, frozen=True, kw_only=True):
    """A part of a file before and after, all that a diff shows of it. The starts are line numbers, from 1."""

    before: str
    after: str
    before_start: int
    after_start: int


class FileChange(Struct, frozen=True, kw_only=True):
    """One file before and after. None: there is no such file.

    ``path`` is relative to the workspace, with forward slashes, and the one after where the file was renamed;
    ``old_path`` is the one before then. ``hunks``: where there are any, no more than these parts of the file are known,
    and ``before`` and ``after`` are these, one after the other. ``binary``: the file is no text; ``before`` and
    ``after`` are empty where it is there.
    """

    path: str
    before: str | None
    after: str | None
    old_path: str | None = None
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False

    def __post_init__(self) -> None:
        if self.before is None and self.after is None:
            raise ValueError(f"{self.path} is there neither before nor after the change")


class Change(Struct, frozen=True, kw_only=True):
    """The files that differ, by path. A file that is the same before and after is in none."""

    files: tuple[FileChange, ...]

    @property
    def is_partial(self) -> bool:
        """Whether of some files no more is known than a diff's hunks show."""
        return any(file.hunks for file in self.files)


def change_of_text(path: str, *, before: str | None, after: str | None) -> Change:
    """The change of a single file; None: there is no such file."""
    if before == after:
        return Change(files=())
    return Change(files=(FileChange(path=path, before=before, after=after),))


def change_of_contents(path: str, *, before: bytes | None, after: bytes | None) -> Change:
    """The change of a single file by its bytes; one that is no text is known as binary."""
    if before == after:
        return Change(files=())
    return Change(files=(file_of_contents(path, before=before, after=after),))


def file_of_contents(
    path: str, *, before: bytes | None, after: bytes | None, old_path: str | None = None
) -> FileChange:
    """One file by its bytes; one that is no text on a side is binary."""
    old, new = (None if content is None else text_of(content) for content in (before, after))
    if (old is None) == (before is None) and (new is None) == (after is None):
        return FileChange(path=path, before=old, after=new, old_path=old_path)
    old, new = (None if content is None else "" for content in (before, after))
    return FileChange(path=path, before=old, after=new, old_path=old_path, binary=True)


def text_of(content: bytes) -> str | None:
    """The content as text, None where it is none: as git does, by a zero byte in the first 8,000."""
    return None if b"\0" in content[:8_000] else content.decode("utf-8", "replace")
