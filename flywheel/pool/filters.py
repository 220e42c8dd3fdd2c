"""Which points are meant: the filters of SPEC section 6, the same for queries, exports and grants."""

from datetime import datetime

from msgspec import Struct


class PointFilter(Struct, frozen=True, kw_only=True):
    """A set of points. Every condition must hold; an empty tuple or None asks for nothing.

    ``since`` is included, ``until`` is not. ``tenants`` are hashes of 64 hex digits. ``min_quality`` is 0–1.
    """

    since: datetime | None = None
    until: datetime | None = None
    task_types: tuple[str, ...] = ()
    complexities: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    min_quality: float | None = None
    success: bool | None = None
    rl_ready: bool | None = None
