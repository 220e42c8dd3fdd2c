"""What this machine's user reads of the pool by commands enters the audit of access before it is printed."""

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from flywheel.pool.filters import PointFilter
    from flywheel.pool.pool import BenchmarkPool

T = TypeVar("T")


def audited(
    opened: "BenchmarkPool",
    action: str,
    read: "Callable[[], T]",
    *,
    asked: "PointFilter | None" = None,
    streamed: bool = False,
    **details: Any,
) -> T:
    """What ``read`` gives, entered under the user's name with the command and what it was asked.

    Args:
        opened: the pool.
        action: a key of ``flywheel.pool.access.decisions.ACTIONS``.
        read: reads.
        asked: which points.
        streamed: rows are not read yet, so that they cannot be counted.
        details: what else was asked.

    Raises:
        FlywheelError: it cannot be read, or not be audited.
    """
    from flywheel.pool.access.reading import read_as_service, rows_of

    return read_as_service(
        opened,
        getpass.getuser(),
        action,
        lambda *_: read(),
        asked=asked,
        details={"command": click.get_current_context().command_path, **details},
        rows=(lambda _: None) if streamed else rows_of,
    )
