"""A ``PointFilter`` as PostgreSQL and as Arrow understand it. Both mean the same rows."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, LiteralString

from msgspec.structs import replace
from psycopg import sql

from flywheel.errors import QueryError
from flywheel.pool.filters import PointFilter
from flywheel.pool.rows import column_text

if TYPE_CHECKING:
    import pyarrow.compute as pc

LISTS = {"task_types": "task_type", "complexities": "complexity", "agents": "agent_id", "tenants": "tenant_id"}
"""Which column each list of a filter is about."""
Comparison = Literal["in", ">=", "<", "="]
Condition = tuple[str, Comparison, Any]
"""Column, comparison, value."""


def checked(where: PointFilter) -> PointFilter:
    """The filter with texts as columns hold them.

    Raises:
        QueryError: a time has no zone, or the quality is not within 0–1.
    """
    for name, instant in (("since", where.since), ("until", where.until)):
        if instant is not None and instant.tzinfo is None:
            raise QueryError(
                f"{name} {instant.isoformat()} has no time zone; write it with one, for example with +00:00"
            )
    if where.min_quality is not None and not 0 <= where.min_quality <= 1:
        raise QueryError(f"the least quality is {where.min_quality}; it lies within 0 and 1")
    return replace(where, **{name: tuple(map(column_text, getattr(where, name))) for name in LISTS})


def conditions(where: PointFilter) -> Iterator[Condition]:
    """What must hold, each of one column."""
    for name, column in LISTS.items():
        if chosen := getattr(where, name):
            yield column, "in", list(chosen)
    if where.since is not None:
        yield "timestamp", ">=", where.since
    if where.until is not None:
        yield "timestamp", "<", where.until
    if where.min_quality is not None:
        yield "overall_score", ">=", where.min_quality
    if where.success is not None:
        yield "success", "=", where.success
    if where.rl_ready is not None:
        yield "rl_ready", "=", where.rl_ready


def sql_of(found: Iterable[Condition]) -> tuple[sql.Composable, list[Any]]:
    """The conditions as SQL, joined by AND, and its parameters in order; TRUE where there are none."""
    forms: dict[Comparison, LiteralString] = {"in": "{} = ANY(%s)", ">=": "{} >= %s", "<": "{} < %s", "=": "{} = %s"}
    held = list(found)
    parts = [sql.SQL(forms[comparison]).format(sql.Identifier(column)) for column, comparison, _ in held]
    return sql.SQL(" AND ").join(parts) if parts else sql.SQL("TRUE"), [value for _, _, value in held]


def arrow_of(found: Iterable[Condition]) -> "pc.Expression":
    """The conditions as an Arrow expression; true where there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    expression = pc.scalar(True)
    for column, comparison, value in found:
        field = pc.field(column)
        if comparison == "in":
            held = field.isin(pa.array(value, pa.string()))
        elif comparison == ">=":
            held = field >= value
        elif comparison == "<":
            held = field < value
        else:
            held = field == value
        expression = expression & held
    return expression
