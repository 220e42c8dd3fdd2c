"""What processes and folders use, read from /proc and the file system."""

import contextlib
import os
from collections.abc import Sequence
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


def disk_bytes(folder: str) -> int:
    """What a folder takes on disk."""
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                used += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return used
