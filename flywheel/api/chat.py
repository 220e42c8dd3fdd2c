"""``/v1/chat/completions`` and ``/v1/models``: what OpenAI's clients ask, answered by the agents of the registry."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response, Security
from starlette.concurrency import run_in_threadpool

from flywheel.api.arbiters import Arbiters
from flywheel.api.chat_answer import Chunks, completion_response, failure_of, headers_of, headers_of_result
from flywheel.api.chat_request import AUTO, TASK_ID_KEY, TASK_TYPE_KEY, ChatRequest, Wanted, read_request, task_of
from flywheel.api.openai_errors import SCHEMA, ChatRequestError, UnknownModelError
from flywheel.api.receiving import document_of, key_scheme, runner_of
from flywheel.api.running_tasks import Event, RunningTask, RunningTasks, leaving, left
from flywheel.api.task_events import STREAM, EventStream
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.running.streaming import TextDelta
from flywheel.arbiter.task import ATTEMPT_MARK, LONGEST_ID, Task, TaskResult
from flywheel.errors import FlywheelError
from flywheel.records import RoutingDecision
from flywheel.settings import Settings

JSON = "application/json"
TASK_ID = "x-flywheel-task-id"
TASK_TYPE = "x-flywheel-task-type"
IDEMPOTENCY_KEY = "idempotency-key"
KEEP_ALIVE_S = 15.0
"""After so long without a piece a stream says that it is there still."""
STILL_THERE = b": still there\n\n"
Leave = Callable[[], None]
"""Called where the client went away."""
REFUSALS = (400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 502, 503, 504)

router = APIRouter(tags=["chat"], dependencies=[Security(key_scheme)])


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes these answers of a route."""
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {JSON: {"schema": SCHEMA}}} for status in statuses
    }


def described() -> dict[str, Any]:
    """The route's request for OpenAPI."""
    names = {
        "X-Flywheel-Task-Id": "a name of your own for the task, which is run once under it and answered the same again",
        "X-Flywheel-Task-Type": "what routing learns about separately; `metadata.flywheel_task_type` is the same",
        "Idempotency-Key": "the same as X-Flywheel-Task-Id",
    }
    parameters = [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": told}
        for name, told in names.items()
    ]
    reference = {"$ref": "#/components/schemas/ChatRequest"}
    return {"parameters": parameters, "requestBody": {"required": True, "content": {JSON: {"schema": reference}}}}


def add_chat(openapi: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with the request's schemas in it."""
    _, schemas = msgspec.json.schema_components([ChatRequest], ref_template="#/components/schemas/{name}")
    openapi.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
    return openapi


@router.post(
    "/v1/chat/completions",
    summary="Have a chat completed",
    response_class=Response,
    responses=refusals(*REFUSALS)
    | {200: {"description": "The completion, or with `stream` its chunks.", "content": {JSON: {}, STREAM: {}}}},
    openapi_extra=described(),
)
async def complete(request: Request) -> Response:
    """A chat completion. `model` is `auto`, and the router chooses the agent, or the id of an agent.

    Requests and answers are OpenAI's, so that any client of theirs works with this service as its base URL. Headers of
    the answer say which task it is, who answers and how that agent was chosen.

    A client that goes away ends the task, unless it gave it a name: sent again under that it has its answer.
    """
    holder = await runner_of(request)
    wanted = await document_of(request, read_request)
    name = _task_name(request, wanted)
    arbiter, task = await run_in_threadpool(_prepared, request, holder.tenant_id, wanted, name)
    tasks: RunningTasks = request.app.state.running_tasks
    running = tasks.start(arbiter, holder.tenant_id, task, followed=wanted.streamed, irrevocable=wanted.streamed)
    leave = partial(left, running, has_name=name is not None)
    async with leaving(request, leave):
        if wanted.streamed:
            return await _streamed(running, leave, with_usage=wanted.with_usage)
        return completion_response(await asyncio.shield(running.ended))


@router.get(
    "/v1/models",
    summary="List what can be asked for as model",
    response_class=Response,
    responses=refusals(401, 403, 429, 503),
)
async def models(request: Request) -> Response:
    """The models that can be asked for: `auto`, and the active agents."""
    holder = await runner_of(request)
    agents = await run_in_threadpool(lambda: _arbiters(request).of(holder.tenant_id).active_agents())
    listed = [_model(AUTO), *(_model(agent_id) for agent_id in agents if agent_id != AUTO)]
    return Response(msgspec.json.encode({"object": "list", "data": listed}), media_type=JSON)


@router.get(
    "/v1/models/{model:path}",
    summary="Show one of the models",
    response_class=Response,
    responses=refusals(401, 403, 404, 429, 503),
)
async def model(model: str, request: Request) -> Response:
    """One of them."""
    holder = await runner_of(request)
    agents = await run_in_threadpool(lambda: _arbiters(request).of(holder.tenant_id).active_agents())
    if model != AUTO and model not in agents:
        raise _unknown(model)
    return Response(msgspec.json.encode(_model(model)), media_type=JSON)


def _model(model_id: str) -> dict[str, Any]:
    return {"id": model_id, "object": "model", "created": 0, "owned_by": "flywheel"}


def _unknown(model: str) -> UnknownModelError:
    told = f"there is no model {model[:200]!r}: /v1/models lists {AUTO} and the active agents"
    return UnknownModelError(told, param="model", code="model_not_found")


def _arbiters(request: Request) -> Arbiters:
    found: Arbiters = request.app.state.arbiters
    return found


def _prepared(request: Request, tenant_id: str, wanted: Wanted, name: str | None) -> tuple[Arbiter, Task]:
    """The tenant's arbiter and the task, if there is somebody to do it."""
    settings: Settings = request.app.state.pool.settings
    task = task_of(
        wanted,
        id=name or f"chatcmpl-{uuid.uuid4().hex}",
        type=_task_type(request, wanted, settings),
        timeout_s=settings.service.task_timeout_s,
    )
    arbiter = _arbiters(request).of(tenant_id)
    agents = arbiter.active_agents()
    if task.agent_id is not None and task.agent_id not in agents:
        raise _unknown(task.agent_id)
    return arbiter, task


def _task_name(request: Request, wanted: Wanted) -> str | None:
    """The id that the client gives the task."""
    for where in (TASK_ID, IDEMPOTENCY_KEY):
        if (found := request.headers.get(where)) is not None:
            break
    else:
        where, found = f"metadata.{TASK_ID_KEY}", wanted.metadata(TASK_ID_KEY)
    if found is None:
        return None
    visible = all("!" <= character <= "~" for character in found)
    if not 0 < len(found) <= LONGEST_ID or ATTEMPT_MARK in found or not visible:
        raise ChatRequestError(
            f"a task's id has 1 to {LONGEST_ID} visible ASCII characters, no blanks and no {ATTEMPT_MARK}", param=where
        )
    return found


def _task_type(request: Request, wanted: Wanted, settings: Settings) -> str:
    found = request.headers.get(TASK_TYPE) or wanted.metadata(TASK_TYPE_KEY) or settings.chat.task_type
    if found not in settings.task_types:
        raise ChatRequestError(
            f"task type {found[:80]!r} is not known here: name one of {', '.join(settings.task_types)} in the header "
            f"X-Flywheel-Task-Type, or add it to task_types",
            param=TASK_TYPE,
            code="unknown_task_type",
        )
    return found


async def _streamed(running: RunningTask, leave: Leave, *, with_usage: bool) -> Response:
    """The answer as it comes. Its head is sent with its first piece: until then there may be another status."""
    events = running.events(every_s=KEEP_ALIVE_S)
    begun = await _first_piece(events)
    if begun is None:
        return _at_once(running.ended.result(), with_usage=with_usage)
    decision, piece = begun
    chunks = Chunks(decision=decision, agent_id=decision.selected_agent_id, with_usage=with_usage)
    headers = headers_of(decision, agent_id=decision.selected_agent_id)
    return EventStream(_events(chunks, piece, events, running.ended), when_left=leave, headers=headers)


async def _first_piece(events: AsyncIterator[Event | None]) -> tuple[RoutingDecision, TextDelta] | None:
    """The first piece of the answer, and whose it is; None where the task ends without any."""
    decision: RoutingDecision | None = None
    async for event in events:
        if isinstance(event, RoutingDecision):
            decision = event
        elif event is not None:
            assert decision is not None, "an agent is chosen before it answers"
            return decision, event
    return None


def _at_once(result: TaskResult, *, with_usage: bool) -> Response:
    """An answer that came without pieces, as those of earlier tasks and of the cache; or the error."""
    if failure_of(result) is not None:
        return completion_response(result)
    chunks = Chunks(decision=result.decision, agent_id=result.agent_id, with_usage=with_usage)
    events = (chunks.begin(), *chunks.whole(result), *chunks.end(result))
    return Response(b"".join(events), media_type=STREAM, headers=headers_of_result(result))


async def _events(
    chunks: Chunks, first: TextDelta, events: AsyncIterator[Event | None], ended: "asyncio.Task[TaskResult]"
) -> AsyncIterator[bytes]:
    yield chunks.begin()
    yield chunks.piece(first)
    async for event in events:
        if isinstance(event, TextDelta):
            yield chunks.piece(event)
        elif event is None:
            yield STILL_THERE
    try:
        result = ended.result()
    except FlywheelError as error:
        yield chunks.broken(str(error), code=None)
        return
    for event_ in chunks.end(result):
        yield event_
