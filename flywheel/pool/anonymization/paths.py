"""Paths of files whose names a policy keeps."""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

BACKSLASHES = re.compile(r"\\+")  # several where the path is quoted in JSON
WINDOWS = re.compile(r"[A-Za-z]:\\|\\\\")
SUFFIX = re.compile(r"\.[A-Za-z0-9_-]{1,7}")
HOMES = {"home", "users", "documents and settings"}

SHARES = r"\\(?:\\){1,3}\w|\b(?:smb|cifs|afp|nfs|sftp)://\w"
"""What a path on another machine begins with."""
PART = r"[^\\/:*?\"<>|\s\[\]]+"
SHARE = re.compile(
    rf"(?<![\\\w)])(?:\\\\[\w.-]{{2,}}(?:\\{PART})+|\\{{4}}[\w.-]{{2,}}(?:\\\\{PART})+)\\{{0,2}}"
    r"|(?:smb|cifs|afp|nfs|sftp)://[^\s\"'<>|\[\]]+",
    re.IGNORECASE,
)  # its backslashes may be doubled, in code and in JSON within JSON


def find_shares(text: str, triggers: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], str]]:
    """Paths on other machines: ``\\\\server\\users\\ann\\x.docx``, ``smb://server/users/ann``."""
    done = 0
    for start, _ in triggers:
        if start >= done and (match := SHARE.match(text, start)):
            done = match.end()
            yield match.span(), "FILE_PATH"


def is_windows(path: str) -> bool:
    """Whether a path, as it reads, is one of Windows: ``C:\\…`` or of a share."""
    return WINDOWS.match(path) is not None


def generalized_path(path: str, *, separator: str = "/") -> str:
    """``/home/ann/app/user-file.ts`` → ``/[PATH]/[FILE].ts`` (SPEC section 4); the suffix is what training needs.

    ``separator`` is how the parts are written apart, which may be escaped.
    """
    windows = is_windows(path)
    name = posixpath.basename(path.replace("\\", "/") if windows else path)
    stem, suffix = posixpath.splitext(name)
    if not name:
        return f"{separator}[PATH]{separator}"
    drive = path[:2] if windows and path[1:2] == ":" else ""
    kept = suffix if stem and SUFFIX.fullmatch(suffix) else ""
    return f"{drive}{separator}[PATH]{separator}[FILE]{kept}"


def named_path(path: str, *, separator: str = "/", clean: Callable[[str], str]) -> str | None:
    """``/home/ann/app/ann-file.ts`` → ``/[PATH]/[USER]-file.ts``: the file's name stays, directories and users do not.

    Args:
        path: an absolute path, as it reads.
        separator: how its parts are written apart.
        clean: replaces what else is personal in a name.

    Returns:
        None where the path names no file, or a user's home.
    """
    *folders, name = BACKSLASHES.split(path) if is_windows(path) else path.split("/")
    if not name or not folders or folders[-1].lower() in HOMES or name.startswith("~"):
        return None
    user = user_of(folders)
    if user:
        name = re.sub(re.escape(user), "[USER]", name, flags=re.IGNORECASE)
    drive = path[:2] if is_windows(path) and path[1:2] == ":" else ""
    return f"{drive}{separator}[PATH]{separator}{clean(name)}"


def user_of(folders: list[str]) -> str:
    """The user whose home is among the folders; empty where none is."""
    for folder, following in pairwise(folders):
        if folder.lower() in HOMES:
            return following
    return folders[0][1:] if folders[0].startswith("~") else ""
