"""``/healthz`` and ``/readyz``: whether the service lives, and whether its receiver takes records. Both need no key."""

import logging
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from flywheel.api.problems import documented
from flywheel.api.receiving import receiver_of
from flywheel.errors import ServiceError

logger = logging.getLogger(__name__)

router = APIRouter(tags=["receiver"])


class Alive(BaseModel):
    """That the service answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """That the receiver takes records."""

    status: Literal["ready"] = "ready"


@router.get("/healthz", summary="Whether the process answers")
async def healthz() -> Alive:
    """Whether the process answers. It does so without PostgreSQL and the disk: restarting it would mend neither."""
    return Alive()


@router.get("/readyz", summary="Whether records are taken", responses=documented(HTTPStatus.SERVICE_UNAVAILABLE))
def readyz(request: Request) -> Ready:
    """Whether records can be taken: the disk has room and the writers run. PostgreSQL may be away for a while."""
    try:
        receiver_of(request).check_ready()
    except ServiceError as error:
        logger.warning("not ready: %s", error)
        raise ServiceError("the receiver cannot write; its log says why") from error
    return Ready()
