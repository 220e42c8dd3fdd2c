"""``/v1/pool``: statistics, quality, batches. Every answer says what it covers."""

import logging
from collections.abc import Iterable, Iterator
from datetime import timedelta
from http import HTTPStatus
from io import BytesIO
from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from flywheel.api import models
from flywheel.api.access import Access, allowed, refusals
from flywheel.api.callers import authorized
from flywheel.api.problems import documented
from flywheel.errors import FlywheelError, ServiceError
from flywheel.pool.batches import list_batches
from flywheel.pool.export_files import leaving, parts_of, write_parquet
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.routing_statistics import RoutingStatistics
from flywheel.pool.rows import Row
from flywheel.pool.waiting import WaitingTask, list_waiting

logger = logging.getLogger(__name__)

JSON_LINES, PARQUET = "application/jsonl", "application/vnd.apache.parquet"
SENT_BYTES = 1 << 17  # at once: each part that is sent takes a thread of its own

COMMON = documented(HTTPStatus.UNAUTHORIZED, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE)
NAMED = documented(HTTPStatus.NOT_FOUND)

open_router = APIRouter(prefix="/v1/pool", tags=["pool"])
router = APIRouter(prefix="/v1/pool", tags=["pool"], dependencies=[Depends(authorized)], responses=COMMON)


def pool_of(request: Request) -> BenchmarkPool:
    """The pool that the service opened."""
    pool: BenchmarkPool = request.app.state.pool
    return pool


def cache_of(request: Request) -> RoutingStatistics:
    """The statistics for routing that the service keeps."""
    cache: RoutingStatistics = request.app.state.cache
    return cache


Pool = Annotated[BenchmarkPool, Depends(pool_of)]
Cache = Annotated[RoutingStatistics, Depends(cache_of)]


@open_router.get("/healthz", summary="Whether the pool answers", responses=documented(HTTPStatus.SERVICE_UNAVAILABLE))
def healthz(pool: Pool, cache: Cache) -> models.Health:
    """Whether PostgreSQL answers and the statistics for routing are there. Needs no token, so it says no more."""
    try:
        with pool.transaction() as connection:
            connection.execute("SELECT 1")
        age_s = cache.age_s
    except FlywheelError as error:
        logger.warning("not healthy: %s", error)
        raise ServiceError("PostgreSQL or the statistics for routing cannot be used; the log says why") from error
    return models.Health(status="ok", routing_statistics_age_s=age_s)


@router.get("/agents/{agent_id:path}/statistics", summary="How an agent did", responses=refusals("statistics.read"))
def agent_statistics(
    agent_id: str,
    parameters: Annotated[models.FilterParameters, Query()],
    access: Annotated[Access, Depends(allowed("statistics.read"))],
) -> models.AgentAnswer:
    """How an agent did, over all tiers: tasks, successes, quality, latency and tokens, in all and per task type.

    Times are rounded up to whole hours unless the filter needs single points; `coverage` says so. An analyst of some
    tenants is answered from the points and aggregates of these alone.
    """
    found = access.read(lambda pool, where: pool.get_agent_statistics(agent_id, where), asked=parameters.where)
    return models.AgentAnswer.model_validate(found)


@router.get(
    "/agents/{agent_id:path}/routing-statistics",
    summary="How an agent did, from memory",
    responses=refusals("routing.read"),
)
def routing_statistics(
    agent_id: str,
    parameters: Annotated[models.RoutingParameters, Query()],
    cache: Cache,
    access: Annotated[Access, Depends(allowed("routing.read"))],
) -> models.RoutingAnswer:
    """How an agent did of late and since ever, from memory; `ageS` says how long ago that was read."""
    found = access.read(
        lambda *_: cache.of(agent_id, parameters.task_type), details={"task_type": parameters.task_type}
    )
    return models.RoutingAnswer.model_validate(found)


@router.get("/statistics/system", summary="How all agents did", responses=refusals("statistics.read"))
def system_statistics(
    parameters: Annotated[models.SystemParameters, Query()],
    access: Annotated[Access, Depends(allowed("statistics.read"))],
) -> models.SystemAnswer:
    """How all agents did, by task type, agent, complexity or UTC day, over all tiers.

    An analyst of some tenants is answered from the points and aggregates of these alone.
    """
    found = access.read(
        lambda pool, where: pool.get_system_statistics(parameters.by, where),
        asked=parameters.where,
        details={"by": parameters.by},
    )
    return models.SystemAnswer.model_validate(found)


@router.get("/statistics", summary="The pool as a whole", responses=refusals("overview.read"))
def statistics(
    parameters: Annotated[models.Parameters, Query()], access: Annotated[Access, Depends(allowed("overview.read"))]
) -> models.PoolStatistics:
    """The pool as a whole: what became of all lines, what each tier holds, who did how well."""
    del parameters
    return models.PoolStatistics.model_validate(access.read(lambda pool, where: pool.get_statistics(where)))


@router.get("/quality", summary="Quality against the targets", responses=NAMED | refusals("overview.read"))
def quality(
    parameters: Annotated[models.QualityParameters, Query()],
    access: Annotated[Access, Depends(allowed("overview.read"))],
) -> models.QualityReport:
    """The quality of some days against the targets, each with a verdict in numbers."""
    found = access.read(
        lambda pool, _: pool.validate_quality(parameters.since, parameters.until),
        details={"from": parameters.since, "to": parameters.until},
    )
    return models.QualityReport.model_validate(found)


@router.get("/waiting", summary="Tasks that lack a log", responses=refusals("waiting.read"))
def waiting(
    parameters: Annotated[models.WaitingParameters, Query()],
    access: Annotated[Access, Depends(allowed("waiting.read"))],
) -> models.WaitingTasks:
    """Tasks that lack a log, the longest wait first: which logs came, which are missing, and when they expire.

    As each day's last validation found them.
    """

    def read(pool: BenchmarkPool, where: PointFilter) -> tuple[WaitingTask, ...]:
        before = pool.now() - timedelta(seconds=parameters.older_than_s) if parameters.older_than_s else None
        return list_waiting(pool, tenants=where.tenants, before=before, limit=parameters.limit + 1)

    asked = PointFilter(tenants=tuple(parameters.tenant))
    details = {"older_than_s": parameters.older_than_s, "limit": parameters.limit}
    rows = access.read(read, asked=asked, details=details, rows=lambda found: min(len(found), parameters.limit))
    tasks = [models.WaitingTask.model_validate(task) for task in rows[: parameters.limit]]
    return models.WaitingTasks(tasks=tasks, more=len(rows) > parameters.limit)


@router.get("/batches", summary="List the batches", responses=refusals("batches.read"))
def batches(
    parameters: Annotated[models.Parameters, Query()], access: Annotated[Access, Depends(allowed("batches.read"))]
) -> models.Batches:
    """All training batches, oldest first."""
    del parameters
    found = access.read(lambda pool, _: list_batches(pool))
    return models.Batches(batches=[models.Batch.model_validate(batch) for batch in found])


@router.get("/batches/{batch_id}", summary="Show a batch", responses=NAMED | refusals("batches.read"))
def batch(
    batch_id: str,
    parameters: Annotated[models.Parameters, Query()],
    access: Annotated[Access, Depends(allowed("batches.read"))],
) -> models.Batch:
    """One training batch."""
    del parameters
    return models.Batch.model_validate(access.read(lambda pool, _: pool.get_batch(batch_id)))


@router.get(
    "/batches/{batch_id}/points",
    summary="The points of a batch",
    response_class=Response,
    responses={
        200: {
            "description": "The points in the batch's order.",
            "content": {
                JSON_LINES: {"schema": {"type": "string", "description": "a point a line"}},
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **documented(HTTPStatus.CONFLICT),
        **NAMED,
        **refusals("points.export"),
    },
)
def batch_points(
    batch_id: str,
    parameters: Annotated[models.BatchPointsParameters, Query()],
    access: Annotated[Access, Depends(allowed("points.export"))],
) -> Response:
    """The points of a batch as they were when it was made, to train on elsewhere; the batch has the digest of all.

    A batch that gave its points back has none to train on any more.
    """
    details = {"batch": batch_id, "format": parameters.form, "phase": parameters.phase, "split": parameters.split}
    rows = access.read(lambda pool, _: chosen_points(pool, batch_id, parameters), details=details)
    if parameters.form == "parquet":
        content = BytesIO()
        write_parquet(content, rows)
        return Response(content.getvalue(), media_type=PARQUET)
    blocks = blocks_of(parts_of(access.pool, rows, parameters.form))
    first = next(blocks, b"")  # what cannot be read for its form is said before the first byte
    return StreamingResponse(chain((first,), blocks), media_type=JSON_LINES)


def chosen_points(pool: BenchmarkPool, batch_id: str, parameters: models.BatchPointsParameters) -> list[Row]:
    """The rows that are asked for of a batch that the caller is shown.

    Raises:
        NotInPoolError: there is no such batch.
        PoolError: its copy was changed.
        SpentBatchError: it gave its points back.
    """
    phase, split = parameters.phase, parameters.split
    return [
        row
        for row in leaving(pool, pool.get_batch(batch_id), parameters.form)
        if phase in {None, row["phase"]} and split in {None, row["split"]}
    ]


def blocks_of(parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The same bytes in larger parts."""
    block = bytearray()
    for part in parts:
        block += part
        if len(block) >= SENT_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)
