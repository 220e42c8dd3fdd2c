"""What processes and folders use, read from /proc and the file system."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def user_of(pid: int) -> int | None:
    """Whose a process is, also one that hides."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None


def memory_bytes(pids: Sequence[int], *, over: int) -> int:
    """What these processes hold in memory.

    Pages that several share are divided among them only where the sum would be ``over`` otherwise: that takes longer.
    """
    resident = {pid: _resident_bytes(pid) for pid in pids}
    if sum(resident.values()) <= over:
        return sum(resident.values())
    return sum(_proportional_bytes(pid, resident[pid]) for pid in pids)


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return 0  # it is gone


def _proportional_bytes(pid: int, resident: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return resident  # one that does not let itself be looked into counts whole


def kept_bytes(pids: Sequence[int], *, segments: bool) -> int:
    """Memory that is no page of these processes: files without a name (memfd), and System V's shared memory.

    ``segments``: whether all of that is theirs, as in a namespace of their own.
    """
    files = {file for pid in pids for file in _files_in_memory(pid)}
    return sum(size for _, size in files) + (_segment_bytes() if segments else 0)


def _files_in_memory(pid: int) -> Iterator[tuple[int, int]]:
    """Number and size of each that a process holds open."""
    device = _device_of_memory()
    with contextlib.suppress(OSError):  # it is gone, or hides
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if found.st_dev == device:
                    yield found.st_ino, found.st_blocks * 512


@cache
def _device_of_memory() -> int:
    """Where the kernel keeps files without a name."""
    with open(os.memfd_create("device"), "rb") as file:
        return os.fstat(file.fileno()).st_dev


def _segment_bytes() -> int:
    with contextlib.suppress(OSError):
        names, *rows = (line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines())
        return sum(int(row[names.index("rss")]) for row in rows)
    return 0  # this kernel has none


def disk_bytes(folder: str) -> int:
    """What a folder takes on disk."""
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                used += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return used
