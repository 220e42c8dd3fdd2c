"""Group commit: what several threads want durable at the same time takes one sync.

The first to come while a sync is under way leads the next group: it waits for that sync, takes all that came meanwhile,
and writes and syncs it in one go; the others wait for their leader. Nobody waits for others to come.
"""

import errno
import threading
from collections.abc import Callable


class _Group:
    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.waiting: list[threading.Lock] = []
        self.durable = False
        self.error: OSError | None = None


class GroupCommit:
    """Commits of many threads, one group at a time."""

    def __init__(self, *, patience_s: float | None = None) -> None:
        self._patience_s = -1 if patience_s is None else patience_s
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._group = _Group()

    def commit(self, data: bytes, write: Callable[[bytes], None]) -> None:
        """Return when the bytes are durable. ``write``, the same for all, makes them so or raises ``OSError``.

        Raises:
            OSError: they are not, or it is not known whether they are.
            TimeoutError: the others in the group, or the one before, took longer than ``patience_s``.
        """
        with self._lock:
            group = self._group
            leads = not group.data
            group.data.append(data)
            if not leads:
                done = threading.Lock()
                done.acquire()
                group.waiting.append(done)
        if leads:
            self._lead(group, write)
        elif not done.acquire(timeout=self._patience_s):
            raise TimeoutError(
                errno.ETIMEDOUT, f"a group of {len(group.data):,} writes was not durable after {self._patience_s} s"
            )
        if not group.durable:
            error = group.error or OSError(errno.EINTR, "the thread that led this group was interrupted")
            raise OSError(error.errno, error.strerror or str(error)) from error

    def _lead(self, group: _Group, write: Callable[[bytes], None]) -> None:
        entered = self._writing.acquire(timeout=self._patience_s)
        with self._lock:
            self._group = _Group()  # from here on nobody joins
        try:
            if not entered:
                raise TimeoutError(errno.ETIMEDOUT, f"the group before was not durable after {self._patience_s} s")
            write(b"".join(group.data))
            group.durable = True
        except OSError as error:
            group.error = error
        finally:
            if entered:
                self._writing.release()
            for done in group.waiting:
                done.release()
