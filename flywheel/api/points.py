"""``/v1/pool/points``: pages of JSON, or everything as a stream of Arrow or JSON Lines."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http import HTTPStatus
from io import BytesIO
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException

from flywheel.api.access import Access, allowed, refusals
from flywheel.api.callers import authorized
from flywheel.api.models import PointPage, PointParameters
from flywheel.api.pool import COMMON
from flywheel.api.problems import documented
from flywheel.errors import QueryError
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.plan import Coverage
from flywheel.pool.queries.points import LIGHT_COLUMNS, PointQuery, Points, Position, Reading

JSON, ARROW, JSON_LINES = "application/json", "application/vnd.apache.arrow.stream", "application/jsonl"
ACCEPTED = {
    JSON: JSON,
    ARROW: ARROW,
    JSON_LINES: JSON_LINES,
    "application/x-ndjson": JSON_LINES,
    "application/*": JSON,
    "*/*": JSON,
}
PAGE, LONGEST_PAGE = 100, 1_000
PLACE = ("day", "timestamp", "id")

router = APIRouter(prefix="/v1/pool", tags=["pool"], dependencies=[Depends(authorized)], responses=COMMON)


@router.get(
    "/points",
    summary="Points of all tiers",
    response_model=PointPage,
    responses={
        200: {
            "description": "A page, or a stream where `Accept` asks for one.",
            "content": {
                ARROW: {"schema": {"type": "string", "format": "binary"}},
                JSON_LINES: {"schema": {"type": "string", "description": "a point in wire JSON a line"}},
            },
        },
        **documented(HTTPStatus.NOT_ACCEPTABLE),
        **refusals("points.read"),
    },
)
def points(
    request: Request,
    parameters: Annotated[PointParameters, Query()],
    access: Annotated[Access, Depends(allowed("points.read"))],
) -> Response:
    """Points across tiers, each once. `Accept` chooses:

    - `application/json`: a page. Go on with `cursor` set to its `next` until that is null.
    - `application/vnd.apache.arrow.stream`: all of them as an Arrow IPC stream.
    - `application/jsonl`: all of them, a line each.

    `coverage` (in Arrow `flywheel.coverage` in the schema's metadata, in JSON Lines the header `Flywheel-Coverage`)
    says which days are read from where, and which days have only aggregates.
    """
    media_type = accepted(request.headers.get("accept", "*/*"))
    if media_type == JSON:
        return Response(page(access, parameters), media_type=JSON)
    return stream(access, parameters, media_type=media_type)


def accepted(header: str) -> str:
    """The first of the asked media types that we have.

    Raises:
        HTTPException: we have none of them.
    """
    for entry in header.split(","):
        name, *details = (part.strip().lower() for part in entry.split(";"))
        if name in ACCEPTED and not any(detail.replace(" ", "") in {"q=0", "q=0.0"} for detail in details):
            return ACCEPTED[name]
    raise HTTPException(
        HTTPStatus.NOT_ACCEPTABLE, f"{header} is not to be had; ask for {JSON}, {ARROW} or {JSON_LINES}"
    )


def page(access: Access, parameters: PointParameters) -> bytes:
    """A page as JSON: one point more is asked for than is shown, to know whether there is a next one.

    Raises:
        QueryError: it cannot be asked so.
    """
    limit = parameters.limit or PAGE
    if limit > LONGEST_PAGE:
        raise QueryError(f"a page of {limit:,} points is too long; ask for at most {LONGEST_PAGE:,}, or for a stream")
    if parameters.order == "any":
        raise QueryError("pages need an order; ask for recent or oldest points, or for a stream")
    shown = tuple(parameters.columns) or LIGHT_COLUMNS
    query = query_of(parameters, shown, order=parameters.order or "recent", limit=limit + 1)
    wide = tuple(dict.fromkeys((*query.columns, *PLACE)))

    def read(pool: BenchmarkPool, where: PointFilter) -> tuple[list[dict[str, Any]], Coverage]:
        with Points(pool, msgspec.structs.replace(query, where=where)).reading(wide) as found:
            return [row for batch in found.batches for row in batch.to_pylist()], found.coverage

    rows, coverage = access.read(
        read,
        asked=parameters.where,
        details=details_of(parameters, media_type=JSON),
        rows=lambda found: min(len(found[0]), limit),
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return msgspec.json.encode(
        {
            "points": [wire_row(row, shown) for row in rows[:limit]],
            "next": None if last is None else cursor_of(Position(*(last[name] for name in PLACE))),
            "coverage": camel(msgspec.to_builtins(coverage)),
        }
    )


def stream(access: Access, parameters: PointParameters, *, media_type: str) -> StreamingResponse:
    """All points, some thousand at a time. What cannot be asked or read is said before the first byte.

    The audit has it before, too, so without the number of its points.
    """
    default = LIGHT_COLUMNS if media_type == ARROW else ("payload",)
    columns = tuple(parameters.columns) or default
    query = query_of(parameters, columns, order=parameters.order or "any", limit=parameters.limit)
    with ExitStack() as opened:
        found = access.read(
            lambda pool, where: opened.enter_context(
                Points(pool, msgspec.structs.replace(query, where=where)).reading()
            ),
            asked=parameters.where,
            details=details_of(parameters, media_type=media_type),
            rows=lambda _: None,
        )
        held = opened.pop_all()
    encode: Callable[[Reading], Iterator[bytes]] = arrow_parts if media_type == ARROW else line_parts

    def parts() -> Iterator[bytes]:
        with held:
            yield from encode(found)

    coverage = msgspec.json.encode(camel(msgspec.to_builtins(found.coverage))).decode()
    return StreamingResponse(parts(), media_type=media_type, headers={"Flywheel-Coverage": coverage})


def details_of(parameters: PointParameters, *, media_type: str) -> dict[str, Any]:
    """What was asked but for the filter, for the audit."""
    asked = parameters.model_dump(include={"columns", "order", "limit", "cursor"})
    return {"accept": media_type, **asked}


def query_of(
    parameters: PointParameters,
    columns: tuple[str, ...],
    *,
    order: Literal["any", "recent", "oldest"],
    limit: int | None,
) -> PointQuery:
    """The query, with columns by either of their names, of what is asked: not yet of what the caller may read."""
    return PointQuery(
        where=parameters.where,
        columns=tuple(SNAKE.get(name, name) for name in columns),
        order=order,
        limit=limit,
        after=position_of(parameters.cursor) if parameters.cursor else None,
    )


def arrow_parts(found: Reading) -> Iterator[bytes]:
    """An Arrow IPC stream."""
    import pyarrow as pa

    buffer = BytesIO()

    def taken() -> bytes:
        content = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return content

    with pa.ipc.new_stream(buffer, found.schema) as writer:
        yield taken()
        for batch in found.batches:
            writer.write_batch(batch)
            yield taken()
    yield taken()


def line_parts(found: Reading) -> Iterator[bytes]:
    """JSON Lines: whole points, or their columns."""
    for batch in found.batches:
        if found.schema.names == ["payload"]:
            yield "".join(f"{payload}\n" for payload in batch.column("payload").to_pylist()).encode()
        else:
            yield msgspec.json.Encoder().encode_lines(
                [wire_row(row, tuple(found.schema.names)) for row in batch.to_pylist()]
            )


def wire_row(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    """A row by the columns' names on the wire; the payload is JSON already."""
    names = [(name, SNAKE.get(name, name)) for name in columns]
    return {to_camel(name): msgspec.Raw(row[name].encode()) if name == "payload" else row[name] for _, name in names}


def camel(value: Any) -> Any:
    """The same with names in camelCase."""
    if isinstance(value, dict):
        return {to_camel(name): camel(part) for name, part in value.items()}
    return [camel(part) for part in value] if isinstance(value, list) else value


def cursor_of(place: Position) -> str:
    """A place in an order as text without meaning for others."""
    return urlsafe_b64encode(msgspec.json.encode(place)).decode()


def position_of(cursor: str) -> Position:
    """The place that a cursor names.

    Raises:
        QueryError: it is none of ours.
    """
    try:
        place = msgspec.json.decode(urlsafe_b64decode(cursor), type=Position)
    except (ValueError, msgspec.MsgspecError):
        place = None
    if place is None or place.timestamp.tzinfo is None or "\0" in place.id:
        raise QueryError(f"cursor {cursor!r} is none of this service's; take `next` of the page before")
    return place


SNAKE = {to_camel(name): name for name in (*LIGHT_COLUMNS, "payload")}
