"""Work spread over the machine's cores: what is pure and large runs in processes; what waits for others, or leaves
Python free, in threads.

Results come back in order.
"""

import gc
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from threading import Thread
from typing import TypeVar

from flywheel.errors import PoolError

Item = TypeVar("Item")
Result = TypeVar("Result")

IDLE_S = 20  # a stage that follows soon finds the processes of the one before
PARENT_LOOK_S = 1.0
GROWTH_BYTES = 1_000_000_000
"""By so much may a process grow before loky takes it for leaking and starts another one. Allocators keep what a large
part needed, a few hundred MB, and a start costs 1.3 s of a processor: imports, and the lists and patterns that names
and secrets are found by."""
OBJECTS_A_COLLECTION = 100_000  # records hold no cycles: looking for them more often takes a sixth of the time
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""For a process that has a core to itself: libraries of linear algebra start a thread a core as they are imported, and
those look out for work for a while on the cores of others."""


def cores() -> int:
    """How many this process may use, by its affinity and its container's share."""
    from loky import cpu_count

    return int(cpu_count())


def mapped(function: Callable[[Item], Result], items: Iterable[Item], *, processes: int) -> Iterator[Result]:
    """The function of each item, in the items' order; at most two a process and one more are under way at a time.

    Args:
        function: of a module, pure; it runs in another process unless ``processes`` is 1.
        items: taken as the processes get free.
        processes: that run side by side.

    Raises:
        PoolError: a process died, for example because the machine has no memory left.
    """
    if processes == 1:
        yield from map(function, items)
        return
    from loky import get_reusable_executor
    from loky.process_executor import BrokenProcessPool

    # a replaced process is no news for whoever runs a day: what was under way is done by another one
    warnings.filterwarnings("ignore", message="A worker was restarted", category=UserWarning)
    executor = get_reusable_executor(
        max_workers=processes,
        timeout=IDLE_S,
        initializer=prepare,
        initargs=(os.getpid(),),
        env={"LOKY_MAX_MEMORY_LEAK_SIZE": str(GROWTH_BYTES)} | ONE_THREAD,
    )
    try:
        yield from in_turn(executor, function, items, workers=processes)
    except BrokenProcessPool as error:
        raise PoolError(
            "a process of the pool died while it worked, most likely because memory ran out; nothing was written. "
            "Run it again, or set FLYWHEEL_POOL_PROCESSES=1"
        ) from error


def threaded(function: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """The same by threads, while the next items are taken: for functions that leave Python free most of the time."""
    with ThreadPoolExecutor(threads) as executor:
        yield from in_turn(executor, function, items, workers=threads)


def in_turn(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Iterator[Result]:
    """Results in the items' order; what is not begun when somebody stops early never is."""
    running: deque[Future[Result]] = deque()
    try:
        for item in items:
            running.append(executor.submit(function, item))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for waiting in running:
            waiting.cancel()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; while one is worked on, a thread makes the next.

    Whoever stops early waits for that one. What makes the items must not use a connection that the worker uses.
    """
    remaining = iter(items)
    with ThreadPoolExecutor(max_workers=1) as thread:
        following = thread.submit(list, islice(remaining, 1))
        while some := following.result():
            following = thread.submit(list, islice(remaining, 1))
            yield from some


def prepare(parent: int) -> None:
    """Make a process ready: what it imported is never collected, and it does not outlive a parent that is killed.

    The parent says its number itself: one that was killed meanwhile is not the one above this process any more.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION, 50, 50)
    Thread(target=end_after, args=(parent,), daemon=True).start()


def end_after(parent: int) -> None:
    """End this process soon after its parent: it may wait without end for a lock that nobody opens any more."""
    while os.getppid() == parent:
        time.sleep(PARENT_LOOK_S)
    os._exit(1)
