"""Peak memory of a tree of processes, sampled by a thread."""

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import psutil

INTERVAL_S = 5.0


class PeakMemory:
    """The largest sum of the memory of some processes and their children while the block runs.

    Counted as proportional set size (pages shared by n processes count 1/n to each; Linux), else unique set size
    (macOS), else resident set size. A sampler sees no peak shorter than its interval.

    Args:
        process_ids: who counts now; called for every sample.
        interval_s: seconds between two samples.
    """

    def __init__(self, process_ids: Callable[[], Iterable[int]], *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self.bytes = 0
        self._process_ids = process_ids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak-memory", daemon=True)

    @property
    def gib(self) -> float:
        """The peak so far."""
        return self.bytes / 2**30

    def _run(self) -> None:
        while not self._stop.is_set():
            self.bytes = max(self.bytes, total_memory(self._process_ids()))
            self._stop.wait(self._interval_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()


def total_memory(process_ids: Iterable[int]) -> int:
    """Memory of these processes and all their children, each counted once, in bytes."""
    family: dict[int, psutil.Process] = {}
    for process_id in process_ids:
        try:
            process = psutil.Process(process_id)
            family.update({child.pid: child for child in (process, *process.children(recursive=True))})
        except psutil.NoSuchProcess:
            continue
    return sum(memory_of(process) for process in family.values())


def memory_of(process: psutil.Process) -> int:
    """Memory of one process in bytes; 0 for one that has ended."""
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.uss)
    except psutil.AccessDenied:
        return resident(process)
    except psutil.Error:
        return 0


def resident(process: psutil.Process) -> int:
    """Resident set size of a process whose details are not ours to read."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
