"""What a forked child does with the open files, locks and threads it inherits: it lets go of them and begins anew."""

import os
import weakref
from typing import Protocol

DESCRIPTORS: set[int] = set()
"""Of this process's live segments. A child closes them: their locks would otherwise outlive the parent."""


class Beginning(Protocol):
    """Something with locks and threads, which a child has to make for itself."""

    def begin(self) -> None:
        """Take the state of a new one."""


_BEGINNING: "weakref.WeakSet[Beginning]" = weakref.WeakSet()


def begin_in_children(one: Beginning) -> None:
    """Have ``begin`` called in every child that this process forks."""
    _BEGINNING.add(one)


def _begin_in_child() -> None:
    for descriptor in DESCRIPTORS:
        os.close(descriptor)
    DESCRIPTORS.clear()
    for one in list(_BEGINNING):
        one.begin()


os.register_at_fork(after_in_child=_begin_in_child)
