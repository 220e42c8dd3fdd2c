"""Exports over HTTP: made, or only planned, for whoever trains elsewhere. Their points are read as any batch's."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from msgspec.structs import replace

from flywheel.api import export_models, models
from flywheel.api.access import Access, allowed, refusals
from flywheel.api.callers import authorized
from flywheel.api.pool import COMMON
from flywheel.api.problems import documented
from flywheel.errors import BusyPoolError
from flywheel.pool.export_choice import ExportCriteria
from flywheel.pool.exports import MadeExport, make_export, preview_export

router = APIRouter(prefix="/v1/pool", tags=["pool"], dependencies=[Depends(authorized)], responses=COMMON)


def exporting_of(request: Request) -> Lock:
    """Held while the service chooses points: others wait outside, not with the connections that this needs."""
    exporting: Lock = request.app.state.exporting
    return exporting


Exporting = Annotated[Lock, Depends(exporting_of)]


@router.put(
    "/batches/{batch_id}",
    summary="Make an export",
    status_code=HTTPStatus.CREATED,
    responses={
        HTTPStatus.OK.value: {"model": models.Batch, "description": "It was made before, with these criteria."},
        **documented(HTTPStatus.CONFLICT),
        **refusals("export.make"),
    },
)
def make(
    batch_id: str,
    asked: export_models.ExportRequest,
    response: Response,
    access: Annotated[Access, Depends(allowed("export.make"))],
    exporting: Exporting,
) -> models.Batch:
    """Make an export under this id: choose its points, copy and mark them; all of it or nothing.

    Send it again where no answer came: it is made once. 409 says in numbers what the pool lacks (`lacking`), or that
    the id is another batch's. Its points are at `/v1/pool/batches/{batch_id}/points`.
    """
    criteria = asked.criteria(access.pool.settings)
    with alone(exporting):
        made: MadeExport = access.read(
            lambda pool, where: make_export(pool, replace(criteria, only=where), export_id=batch_id, now=pool.now()),
            asked=criteria.only,
            details={"batch": batch_id, **told_of(criteria)},
            rows=lambda made: made.batch.size,
        )
    if made.rows is None:
        response.status_code = HTTPStatus.OK
    return models.Batch.model_validate(made.batch)


@router.post("/batches/preview", summary="What an export would hold and lack", responses=refusals("export.preview"))
def preview(
    asked: export_models.ExportRequest,
    access: Annotated[Access, Depends(allowed("export.preview"))],
    exporting: Exporting,
) -> export_models.ExportPlan:
    """What an export made now would hold, and in numbers what it lacks. Nothing is marked or written."""
    criteria = asked.criteria(access.pool.settings)
    with alone(exporting):
        plan = access.read(
            lambda pool, where: preview_export(pool, replace(criteria, only=where), now=pool.now()),
            asked=criteria.only,
            details=told_of(criteria),
        )
    return export_models.ExportPlan.model_validate(plan)


@contextmanager
def alone(exporting: Lock) -> Iterator[None]:
    """One at a time.

    Raises:
        BusyPoolError: there is one already.
    """
    if not exporting.acquire(blocking=False):
        raise BusyPoolError("this service is making or planning another export; send the same again in a moment")
    try:
        yield
    finally:
        exporting.release()


def told_of(criteria: ExportCriteria) -> dict[str, Any]:
    """What was asked but for the filter, for the audit."""
    return {"phase": criteria.phase, "min_points": criteria.min_points, "max_points": criteria.max_points}
