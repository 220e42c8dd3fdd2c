"""Paths of files whose names a policy keeps."""

import re
from collections.abc import Callable
from itertools import pairwise

BACKSLASHES = re.compile(r"\\+")  # several where the path is quoted in JSON
HOMES = {"home", "users", "documents and settings"}


def named_path(path: str, *, clean: Callable[[str], str]) -> str | None:
    """``/home/ann/app/ann-file.ts`` → ``/[PATH]/[USER]-file.ts``: the file's name stays, directories and users do not.

    Args:
        path: an absolute path.
        clean: replaces what else is personal in a name.

    Returns:
        None where the path names no file, or a user's home.
    """
    backslashes = BACKSLASHES.search(path)
    separator = backslashes.group() if backslashes else "/"
    *folders, name = path.split(separator)
    if not name or not folders or folders[-1].lower() in HOMES or name.startswith("~"):
        return None
    user = user_of(folders)
    if user:
        name = re.sub(re.escape(user), "[USER]", name, flags=re.IGNORECASE)
    drive = path[:2] if backslashes else ""
    return f"{drive}{separator}[PATH]{separator}{clean(name)}"


def user_of(folders: list[str]) -> str:
    """The user whose home is among the folders; empty where none is."""
    for folder, following in pairwise(folders):
        if folder.lower() in HOMES:
            return following
    return folders[0][1:] if folders[0].startswith("~") else ""
