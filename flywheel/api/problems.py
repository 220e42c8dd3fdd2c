"""What is said of a request that cannot be answered: problem details for HTTP (RFC 9457)."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from math import ceil
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from starlette.exceptions import HTTPException

from flywheel.api.callers import UnauthorizedError
from flywheel.api.openai_errors import (
    ChatRequestError,
    UnknownModelError,
    error_response,
    response_to,
    speaks_openai,
)
from flywheel.api.receiving import UnusableRequestError
from flywheel.arbiter.running.calls import TaskCancelledError
from flywheel.arbiter.running.claims import ReusedTaskIdError, TakenTaskError
from flywheel.arbiter.running.late import ConflictingReportError, NotJudgeableError, UnknownTaskError
from flywheel.collection.receiver.bodies import BodyError, BodyTooLargeError, SlowBodyError, UnknownEncodingError
from flywheel.collection.receiver.committing import BacklogError
from flywheel.collection.receiver.idempotency import ReusedNameError, UnderWayError
from flywheel.collection.receiver.keys import MayNotRunError, UnknownKeyError
from flywheel.collection.receiver.receiver import RateError
from flywheel.errors import (
    AccessError,
    AgentExistsError,
    BatchExistsError,
    DatabaseError,
    FlywheelError,
    HeldOutTaskError,
    NoAgentError,
    NotInPoolError,
    ProfileError,
    QueryError,
    RetryLaterError,
    SpentBatchError,
    StaleRevisionError,
    UnknownAgentError,
    UnknownSourceTaskError,
    UnmadeBatchError,
)

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
STATUSES: tuple[tuple[type[FlywheelError], HTTPStatus], ...] = (
    (UnauthorizedError, HTTPStatus.UNAUTHORIZED),
    (UnknownKeyError, HTTPStatus.UNAUTHORIZED),
    (MayNotRunError, HTTPStatus.FORBIDDEN),
    (UnknownModelError, HTTPStatus.NOT_FOUND),
    (ChatRequestError, HTTPStatus.BAD_REQUEST),
    (TaskCancelledError, HTTPStatus.SERVICE_UNAVAILABLE),
    (BodyTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (UnknownEncodingError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (SlowBodyError, HTTPStatus.REQUEST_TIMEOUT),
    (BodyError, HTTPStatus.BAD_REQUEST),
    (RateError, HTTPStatus.TOO_MANY_REQUESTS),
    (BacklogError, HTTPStatus.TOO_MANY_REQUESTS),
    (UnderWayError, HTTPStatus.CONFLICT),
    (ReusedNameError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (AccessError, HTTPStatus.FORBIDDEN),
    (HeldOutTaskError, HTTPStatus.FORBIDDEN),
    (UnusableRequestError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NoAgentError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ReusedTaskIdError, HTTPStatus.CONFLICT),
    (TakenTaskError, HTTPStatus.CONFLICT),
    (ConflictingReportError, HTTPStatus.CONFLICT),
    (UnknownSourceTaskError, HTTPStatus.NOT_FOUND),
    (UnknownTaskError, HTTPStatus.NOT_FOUND),
    (NotJudgeableError, HTTPStatus.CONFLICT),
    (QueryError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NotInPoolError, HTTPStatus.NOT_FOUND),
    (SpentBatchError, HTTPStatus.CONFLICT),
    (BatchExistsError, HTTPStatus.CONFLICT),
    (UnmadeBatchError, HTTPStatus.CONFLICT),
    (UnknownAgentError, HTTPStatus.NOT_FOUND),
    (AgentExistsError, HTTPStatus.CONFLICT),
    (StaleRevisionError, HTTPStatus.PRECONDITION_FAILED),
    (ProfileError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DatabaseError, HTTPStatus.SERVICE_UNAVAILABLE),
    (FlywheelError, HTTPStatus.SERVICE_UNAVAILABLE),  # a store that cannot be read now
)
DESCRIPTION: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what is wrong and what to do"},
        "instance": {"type": "string", "description": "the path that was asked"},
        "errors": {
            "type": "array",
            "description": "each parameter that cannot be used",
            "items": {
                "type": "object",
                "properties": {"where": {"type": "string"}, "what": {"type": "string"}},
            },
        },
        "lacking": {
            "type": "array",
            "description": "what the pool lacks for a batch, a sentence with its numbers each",
            "items": {"type": "string"},
        },
    },
}


def status_of(error: FlywheelError) -> HTTPStatus:
    """The status that says what an error says."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def headers_of(error: FlywheelError) -> dict[str, str]:
    """What a client's software is told besides: how to authenticate, when to try again, that the body is not read."""
    status = status_of(error)
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RetryLaterError):
        headers["Retry-After"] = str(max(1, ceil(error.wait_s)))
    if status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}:
        headers["Connection"] = "close"
    return headers


def documented(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes these answers of a route."""
    return {
        status.value: {"description": status.phrase, "content": {MEDIA_TYPE: {"schema": DESCRIPTION}}}
        for status in statuses
    }


def problem(
    request: Request,
    status: int,
    detail: str,
    *,
    errors: Sequence[Mapping[str, Any]] = (),
    lacking: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer, in the shape that the route's clients read."""
    if speaks_openai(request.url.path):
        return error_response(status, detail, headers=headers)
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
    }
    if errors:
        content["errors"] = errors
    if lacking:
        content["lacking"] = lacking
    return Response(msgspec.json.encode(content), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def add_handlers(app: FastAPI) -> None:
    """Let every error of an app be a problem."""

    @app.exception_handler(FlywheelError)
    async def ours(request: Request, error: FlywheelError) -> Response:
        status = status_of(error)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            logger.warning("%s cannot be answered: %s", request.url.path, error)
        if speaks_openai(request.url.path):
            return response_to(error, status, headers_of(error))
        lacking = error.lacking if isinstance(error, UnmadeBatchError) else ()
        return problem(request, status, str(error), lacking=lacking, headers=headers_of(error))

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> Response:
        errors = [{"where": ".".join(map(str, found["loc"])), "what": str(found["msg"])} for found in error.errors()]
        detail = "; ".join(f"{entry['where']}: {entry['what']}" for entry in errors)
        return problem(
            request,
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the request cannot be used: {detail}. /docs lists what can be asked",
            errors=errors,
        )

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.url.path}: {error.detail}. /docs lists what can be asked"
        return problem(request, error.status_code, detail, headers=error.headers)

    @app.exception_handler(NoConnectionError)
    async def crowded(request: Request, error: NoConnectionError) -> Response:
        del error
        return problem(
            request,
            HTTPStatus.SERVICE_UNAVAILABLE,
            "all connections to PostgreSQL are in use by other requests; ask again in a moment",
            headers={"Retry-After": "5"},
        )

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        detail = f"the service met an error of its own ({type(error).__name__}); its log has it, please report it"
        return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)
