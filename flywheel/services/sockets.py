"""Unix sockets between the services: in a folder of this user alone, below the temporary directory.

Not below home, because the path of a socket may be hardly longer than 100 bytes.
"""

import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from flywheel.errors import ServiceError

LONGEST_PATH = 103  # bytes; macOS allows no more, Linux four more


def socket_folder(supervisor: str) -> Path:
    """Where an installation's sockets are."""
    return Path(tempfile.gettempdir()) / f"flywheel-{supervisor}"


def private_socket(supervisor: str, name: str) -> Path:
    """The path of a socket, in a folder that is made where it is missing.

    Raises:
        ServiceError: the folder is somebody else's or open to others, or the path is too long.
    """
    folder = socket_folder(supervisor)
    path = folder / name
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ServiceError(f"{path} is too long for a socket ({LONGEST_PATH} bytes); choose a shorter TMPDIR")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ServiceError(f"{folder} cannot be used for sockets: {error}. Choose another TMPDIR.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ServiceError(f"{folder} is not a private folder of this user; remove it or choose another TMPDIR")
    return path


def remove_sockets(supervisor: str) -> None:
    """Remove an installation's sockets, whose services have ended. What cannot be removed is used again."""
    shutil.rmtree(socket_folder(supervisor), ignore_errors=True)


def listens(path: Path) -> bool:
    """Whether a process listens on this socket now."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
