"""``POST /v1/logs/…``: an arbiter's records, durable when they are acknowledged."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from hashlib import blake2b
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response, Security
from starlette.concurrency import run_in_threadpool

from flywheel.api.problems import documented, problem, status_of
from flywheel.api.receiving import Taken, key_scheme, receiver_of, taken
from flywheel.api.task_models import MODELS
from flywheel.collection.receiver import idempotency
from flywheel.collection.receiver.admission import RECORDS, Admitted, Kind, admit_records
from flywheel.collection.receiver.bodies import BodyError, items_of
from flywheel.collection.receiver.idempotency import LONGEST_NAME, Answer
from flywheel.errors import FlywheelError

JSON = "application/json"
LINES = ("application/x-ndjson", "application/jsonl", "application/ndjson")
REPLAYED = {"Idempotent-Replayed": "true"}

router = APIRouter(tags=["receiver"], dependencies=[Security(key_scheme)])

ITEM_ERROR = {
    "type": "object",
    "required": ["index", "reason", "detail"],
    "properties": {
        "index": {
            "type": "integer",
            "description": "the record's place in the request, from 0; blank lines do not count",
        },
        "reason": {"type": "string", "enum": ["schema", "not-json", "tenant", "too-large", "too-deep"]},
        "detail": {"type": "string"},
    },
}
ACCEPTED = {
    "type": "object",
    "required": ["accepted", "rejected", "errors"],
    "properties": {
        "accepted": {"type": "integer", "description": "records that are synced to disk"},
        "rejected": {"type": "integer", "description": "records that were not stored; `errors` says why"},
        "errors": {"type": "array", "items": ITEM_ERROR},
    },
}


def described(kind: Kind) -> dict[str, Any]:
    """A route's request for OpenAPI."""
    record = {"$ref": f"#/components/schemas/{RECORDS[kind].__name__}"}
    name = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": "^[!-~]+$"},
        "description": "a name of your own for this request; a retry with it is answered the same and stores nothing",
    }
    content = {
        JSON: {"schema": {"oneOf": [record, {"type": "array", "items": record}]}},
        LINES[0]: {"schema": {"type": "string", "description": "one record a line"}},
    }
    return {"parameters": [name], "requestBody": {"required": True, "content": content}}


def answers() -> dict[int | str, dict[str, Any]]:
    """A route's answers for OpenAPI."""
    refusals = documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    stored = {"description": "Synced to disk, but for what `errors` names.", "content": {JSON: {"schema": ACCEPTED}}}
    return {HTTPStatus.OK.value: stored, **refusals}


def route_of(kind: Kind) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The route that takes one kind of record."""

    async def receive(request: Request) -> Response:
        receiver = receiver_of(request)
        try:
            return await received(request, kind)
        except FlywheelError as error:
            receiver.counters.refused.labels(kind, status_of(error).phrase).inc()
            raise

    receive.__name__ = f"receive_{kind}"
    receive.__doc__ = (
        f"Records of the {kind} log: one, a list, or one a line; gzip or zstd.\n\n"
        "Answer 200 means that every record that `errors` does not name is synced to disk. A record that is refused "
        "costs no other; where all are refused the answer is 422. The key decides the tenant: a record without "
        "`tenantId` gets it, one that names another tenant is refused."
    )
    return receive


for _kind in RECORDS:
    router.add_api_route(
        f"/v1/logs/{_kind}",
        route_of(_kind),
        methods=["POST"],
        response_class=Response,
        responses=answers(),
        openapi_extra=described(_kind),
        summary=f"Take records of the {_kind} log",
    )


async def received(request: Request, kind: Kind) -> Response:
    """The answer to a request; one that names itself is answered as it was before."""
    encoding = request.headers.get("content-encoding", "")
    work = await taken(request, kind, JSON, *LINES)
    lines = work.media_type != JSON
    with work.receiver.room_for(len(work.body)):
        name = request.headers.get("idempotency-key")
        if name is None:
            return await stored(request, work, kind, lines=lines, encoding=encoding)
        named = named_request(name, work, request.url.path)
        requests = work.receiver.requests
        before = await run_in_threadpool(requests.begin, named, now=datetime.now(UTC))
        if before is not None:
            return Response(before.body, before.status, headers=REPLAYED, media_type=JSON)
        done = False
        try:
            response = await stored(request, work, kind, lines=lines, encoding=encoding)
            done = response.status_code == HTTPStatus.OK
        finally:
            if not done:
                await run_in_threadpool(requests.release, named)
        if done:
            await run_in_threadpool(requests.end, named, Answer(response.status_code, bytes(response.body)))
        return response


def named_request(name: str, work: Taken, path: str) -> idempotency.Request:
    """The request by its name.

    Raises:
        BodyError: the name is too long, or has characters that names have not.
    """
    if not 0 < len(name) <= LONGEST_NAME or not all("!" <= character <= "~" for character in name):
        raise BodyError(f"an Idempotency-Key has 1 to {LONGEST_NAME} visible ASCII characters and no blanks")
    digest = blake2b(path.encode() + b"\n" + work.body, digest_size=32).digest()
    return idempotency.Request(work.holder.key_id, name, digest)


async def stored(request: Request, work: Taken, kind: Kind, *, lines: bool, encoding: str) -> Response:
    """Store what can be stored, and say what could not."""

    def judge(body: bytes) -> Admitted:
        items = items_of(body, lines=lines)
        return admit_records(items, kind, tenant_id=work.holder.tenant_id, limits=work.receiver.limits)

    admitted = await work.judged(judge, encoding=encoding)
    await work.stored(admitted)
    errors = [msgspec.to_builtins(refused) for refused in admitted.refused]
    if errors and not admitted.lines:
        detail = f"none of the {len(errors):,} records can be used; the first one: {admitted.refused[0].detail}"
        return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)
    content = {"accepted": len(admitted.lines), "rejected": len(errors), "errors": errors}
    return Response(msgspec.json.encode(content), media_type=JSON)


def add_records(openapi: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with the schemas of records and tasks in it. The path says which log it is, the key whose."""
    described = (*RECORDS.values(), *MODELS)
    _, schemas = msgspec.json.schema_components(described, ref_template="#/components/schemas/{name}")
    for record in RECORDS.values():
        schema = schemas[record.__name__]
        schema["required"] = [name for name in schema["required"] if name not in {"log", "tenantId"}]
    known = openapi.setdefault("components", {}).setdefault("schemas", {})
    clashes = known.keys() & schemas.keys()
    if clashes:
        raise ValueError(f"two schemas are called {', '.join(sorted(clashes))}; rename the one of the API's models")
    known.update(schemas)
    return openapi
