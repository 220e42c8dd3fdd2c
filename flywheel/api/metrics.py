"""``/metrics``: the pool for Prometheus, which gets an answer in time or a problem."""

import logging
from http import HTTPStatus
from threading import Lock
from typing import Annotated

from anyio import fail_after, to_thread
from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import TimeoutError as NoConnectionError

from flywheel.api.access import Access, allowed, refusals
from flywheel.api.callers import authorized
from flywheel.api.problems import documented
from flywheel.api.receiving import receiver_of
from flywheel.errors import AccessError, FlywheelError, ServiceError
from flywheel.pool.metrics import render_metrics

logger = logging.getLogger(__name__)

LONGEST_S = 8.0
"""Below the 10 seconds that Prometheus waits unless told."""
one_at_a_time = Lock()

router = APIRouter(
    tags=["metrics"],
    dependencies=[Depends(authorized)],
    responses=documented(HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE),
)


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text exposition format.", "content": {CONTENT_TYPE_LATEST: {}}},
        **refusals("metrics.read"),
    },
)
async def metrics(request: Request, access: Annotated[Access, Depends(allowed("metrics.read"))]) -> Response:
    """The pool's metrics: tiers, lines by outcome, gates, privacy, alerts, lag, batches, agents of the last day.

    And this process's receiver: what it accepted, rejected and refused by reason, bytes, latency. These are answered
    always, to the installation's token also without PostgreSQL; `flywheel_pool_metrics_up` is 0 where the pool's are
    missing.
    """
    counters = receiver_of(request).counters
    try:
        content = await of_pool(access)
        counters.pool_up.set(1)
    except AccessError:
        raise
    except FlywheelError as error:
        logger.warning("the pool's metrics are missing from this answer: %s", error)
        content = b""
        counters.pool_up.set(0)
    return Response(content + counters.render(), media_type=CONTENT_TYPE_LATEST)


async def of_pool(access: Access) -> bytes:
    """The pool's metrics.

    Raises:
        ServiceError: they cannot be read in time.
        DatabaseError: PostgreSQL cannot be used.
    """
    try:
        with fail_after(LONGEST_S):
            return await to_thread.run_sync(rendered, access, abandon_on_cancel=True)
    except TimeoutError as error:
        raise ServiceError(
            f"they took longer than {LONGEST_S:.0f} seconds; PostgreSQL or the lake is slow or away. Ask again in a "
            f"minute: what was read of the lake is kept"
        ) from error
    except NoConnectionError as error:
        raise ServiceError("all connections to PostgreSQL are in use by other requests") from error


def rendered(access: Access) -> bytes:
    """The metrics, entered into the audit. The service reads them: the lake's last reading is kept in PostgreSQL.

    Raises:
        ServiceError: an earlier reading hangs.
        DatabaseError: PostgreSQL cannot be used.
    """
    if not one_at_a_time.acquire(timeout=LONGEST_S):
        raise ServiceError(f"an earlier request for metrics still hangs after {LONGEST_S:.0f} seconds; ask again later")
    try:
        return access.read(lambda *_: render_metrics(access.pool), rows=lambda _: None)
    finally:
        one_at_a_time.release()
