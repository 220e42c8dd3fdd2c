"""``/v1/route``, ``/v1/tasks``, ``/v1/outcomes``: the arbiter for agents in other languages, for the key's tenant."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response, Security
from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from flywheel.api.arbiters import Arbiters
from flywheel.api.logs import JSON
from flywheel.api.receiving import UnusableRequestError, key_scheme, object_of, runner_of
from flywheel.api.running_tasks import RunningTask, RunningTasks, leaving, left
from flywheel.api.task_descriptions import DONE, GOES_ON, answers, asks
from flywheel.api.task_events import POLL_S, STREAM, EventStream, awaited_elsewhere, ended, followed
from flywheel.api.task_models import (
    OutcomeAnswer,
    RouteAnswer,
    RouteRequest,
    TaskAnswer,
    TaskRequest,
    UnfinishedTask,
)
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.running.claims import Known
from flywheel.arbiter.running.late import UnknownTaskError
from flywheel.arbiter.running.reports import Report
from flywheel.arbiter.settings import storable
from flywheel.arbiter.task import LONGEST_ID, Task, TaskResult
from flywheel.errors import RetryLaterError
from flywheel.settings import Settings
from flywheel.tasks.catalog import source_task

T = TypeVar("T")
LONGEST_WAIT_S = 600.0
CANCELLING_S = 5.0
"""How long a request to cancel waits for the task to be accounted for."""
PREFERRED_WAIT = re.compile(r"\bwait\s*=\s*\"?(\d{1,6})")

router = APIRouter(prefix="/v1", tags=["tasks"], dependencies=[Security(key_scheme)])

Wait = Annotated[
    float | None,
    Query(ge=0, le=LONGEST_WAIT_S, description="seconds to wait for the result; after them the answer is 202"),
]
Prefer = Annotated[
    str | None,
    Header(description="`respond-async`: answer at once; `wait=SECONDS`: wait so long at most (RFC 7240)"),
]
Accept = Annotated[str | None, Header(description=f"`{STREAM}`: the task's events as they happen")]


class Client(Struct, frozen=True, kw_only=True):
    """Whose request it is, and the arbiter of its tenant."""

    tenant_id: str
    arbiter: Arbiter
    running: RunningTasks
    settings: Settings


# --- the routes -----------------------------------------------------------------------------------------------------


@router.post(
    "/route",
    response_class=Response,
    responses=answers((HTTPStatus.OK, "RouteAnswer", "Whom the task is given."), also=(HTTPStatus.NOT_FOUND,)),
    openapi_extra=asks("RouteRequest"),
    summary="Say whom a task would be given",
)
async def route(request: Request) -> Response:
    """Whom the task would be given now, why, and with which probability each of the others. Nothing is run.

    With `log` you do the task yourself, by that agent: the decision is logged and kept under the task's id, the same
    one when it is asked again, until you report to `/v1/outcomes`; so routing learns of what others run.
    """
    asked, client = await object_for(request, RouteRequest)
    task = await task_of(asked, client)
    if asked.log:
        decision, replayed = await run_in_threadpool(client.arbiter.route_for_caller, task)
    else:
        decision, replayed = await run_in_threadpool(client.arbiter.route, task), False
    found = RouteAnswer(
        task_id=task.id, agent_id=decision.selected_agent_id, logged=asked.log, replayed=replayed, decision=decision
    )
    return answered(found)


@router.post(
    "/tasks",
    response_class=Response,
    responses=answers(DONE, GOES_ON, streams=True, also=(HTTPStatus.NOT_FOUND,)),
    openapi_extra=asks("TaskRequest"),
    summary="Have a task done",
)
async def run(request: Request, wait: Wait = None, prefer: Prefer = None, accept: Accept = None) -> Response:
    """Route a task, have an agent do it, evaluate the answer, log all three, and learn.

    The answer comes when the task has ended, within its limits; with `wait` or `Prefer` after so long at the latest,
    as 202 with a `Location` to ask at; as events with `Accept: text/event-stream`. A task that failed is an answer,
    too: `failure` says why.

    A task runs once under its id: sent again, it is answered as before. So a task with an id of yours goes on when you
    lose the connection; one without is cancelled then. Both are logged.
    """
    asked, client = await object_for(request, TaskRequest)
    seconds = seconds_to_wait(wait, prefer)
    task = await task_of(asked, client)
    await run_in_threadpool(see_that_it_can_run, client, task.id)
    running = client.running.start(client.arbiter, client.tenant_id, task)
    leave = partial(left, running, has_name=asked.id is not None)
    async with leaving(request, leave):
        await running.accepted()
        if wants_events(accept):
            return EventStream(followed(running), when_left=leave)
        return await state_of(client, task.id, running, seconds=seconds)


@router.get(
    "/tasks/{task_id:path}",
    response_class=Response,
    responses=answers(
        DONE,
        (HTTPStatus.ACCEPTED, "UnfinishedTask", "It has no result."),
        body=False,
        streams=True,
        also=(HTTPStatus.NOT_FOUND,),
    ),
    summary="What became of a task",
)
async def show(
    task_id: str, request: Request, wait: Wait = None, prefer: Prefer = None, accept: Accept = None
) -> Response:
    """The result of a task, as long as it is kept (`execution.kept_hours`), or how it stands.

    With `wait` the answer comes when the task has ended, or after so long; with `Accept: text/event-stream` as events,
    from the task's beginning on where the process that is asked runs it.
    """
    client = await client_of(request)
    known = await known_task(client, task_id)
    running = client.running.find(client.tenant_id, task_id)
    if wants_events(accept) and known.result is not None:
        return EventStream(one(ended(known.result)))
    if wants_events(accept) and running is not None:
        return EventStream(followed(running))
    if wants_events(accept) and known.runs:
        return EventStream(awaited_elsewhere(partial(client.arbiter.known, task_id)))
    return await state_of(client, task_id, running, seconds=seconds_to_wait(wait, prefer) or 0.0)


@router.delete(
    "/tasks/{task_id:path}",
    response_class=Response,
    responses=answers(
        DONE,
        (HTTPStatus.ACCEPTED, "UnfinishedTask", "It will be cancelled, or nobody runs it."),
        body=False,
        also=(HTTPStatus.NOT_FOUND,),
    ),
    summary="Cancel a task",
)
async def cancel(task_id: str, request: Request) -> Response:
    """Cancel a task, whichever process runs it: its agent is given up, and it is logged as cancelled.

    A task that has ended stays as it is, and is answered. One that another process runs is cancelled within a quarter
    of `execution.claim_s`.
    """
    client = await client_of(request)
    known = await known_task(client, task_id)
    if known.result is None:
        await run_in_threadpool(client.arbiter.cancel, task_id)
    running = client.running.find(client.tenant_id, task_id)
    return await state_of(client, task_id, running, seconds=CANCELLING_S if running else 0.0)


@router.post(
    "/outcomes",
    response_class=Response,
    responses=answers((HTTPStatus.OK, "OutcomeAnswer", "It was taken."), also=(HTTPStatus.NOT_FOUND,)),
    openapi_extra=asks("Report"),
    summary="Tell how a task went, or what its answer is worth",
)
async def report(request: Request) -> Response:
    """How you did a task that was routed with `log`, an evaluation of an answer that nobody judged, or a reward for it.

    Each part is logged, and the first word on what the answer is worth is learned. The same report again changes
    nothing; another one of the same part is refused (409). An execution without success is worth 0.
    """
    told, client = await object_for(request, Report)
    reported = await run_in_threadpool(client.arbiter.record_report, told)
    return answered(OutcomeAnswer.of(reported))


# --- what they have in common ---------------------------------------------------------------------------------------


async def client_of(request: Request) -> Client:
    """Who asks, and for whom.

    Raises:
        UnknownKeyError, MayNotRunError, RateError: the key is not good for it, or not now.
        DatabaseError: PostgreSQL cannot be used.
    """
    holder = await runner_of(request)
    arbiters: Arbiters = request.app.state.arbiters
    return Client(
        tenant_id=holder.tenant_id,
        arbiter=await run_in_threadpool(arbiters.of, holder.tenant_id),
        running=request.app.state.running_tasks,
        settings=request.app.state.pool.settings,
    )


async def object_for(request: Request, kind: type[T]) -> tuple[T, Client]:
    """What is asked and who asks: the key is looked at before the body is read.

    Raises:
        FlywheelError: as ``client_of`` and ``object_of``.
    """
    client = await client_of(request)
    return await object_of(request, kind), client


async def task_of(asked: TaskRequest, client: Client) -> Task:
    """The task that is asked for.

    Raises:
        UnusableRequestError: it cannot be one.
        UnknownSourceTaskError: no configured source has it.
    """
    source = None
    if asked.source is not None:  # its tasks are read at first use, which takes a while
        source = await run_in_threadpool(source_task, asked.source, client.settings.tasks)
    elif asked.type not in client.settings.task_types:
        raise UnusableRequestError(
            f"task type {asked.type!r} is not known here: it is one of {', '.join(client.settings.task_types)}, or is "
            f"added to task_types in the configuration"
        )
    try:
        return asked.task(client.settings.service, source)
    except ValueError as error:
        raise UnusableRequestError(f"the request cannot be used: {error}") from None


def see_that_it_can_run(client: Client, task_id: str) -> None:
    """Refuse a new task where nobody is there to do it: it keeps its id for later.

    Raises:
        ConfigurationError: no agent is active.
        DatabaseError: PostgreSQL cannot be used.
    """
    if client.arbiter.known(task_id) is None:
        client.arbiter.check_agents()


async def known_task(client: Client, task_id: str) -> Known:
    """What is known of the task of a path.

    Raises:
        UnknownTaskError: nothing.
    """
    known = await run_in_threadpool(client.arbiter.known, task_id) if is_id(task_id) else None
    if known is None:
        raise UnknownTaskError(f"nothing is known of a task {task_id[:80]!r}; results are kept for a while only")
    return known


def is_id(text: str) -> bool:
    """Whether a task can be called so."""
    try:
        return 0 < len(storable(text)) <= LONGEST_ID
    except ValueError:
        return False


async def state_of(client: Client, task_id: str, running: RunningTask | None, *, seconds: float | None) -> Response:
    """The result of a task if it comes in time, else how it stands. ``seconds``: None waits for as long as it takes.

    Raises:
        FlywheelError: the task cannot be run.
    """
    result: TaskResult | None = None
    if running is not None:
        try:
            result = await running.result(seconds=seconds)
        except RetryLaterError:  # another process runs it, for longer than this one was asked to wait
            running = None
    deadline = asyncio.get_running_loop().time() + (seconds or 0.0)
    while result is None:
        known = await known_task(client, task_id)
        result = known.result
        if result is None and (running or not known.runs or asyncio.get_running_loop().time() >= deadline):
            return unfinished(UnfinishedTask.of(task_id, known))
        if result is None:
            await asyncio.sleep(POLL_S)
    return answered(TaskAnswer.of(result))


def answered(found: Any) -> Response:
    """An answer as JSON."""
    return Response(msgspec.json.encode(found), media_type=JSON)


def unfinished(found: UnfinishedTask) -> Response:
    """The answer 202, which says where to ask again."""
    headers = {"Location": f"/v1/tasks/{quote(found.task_id, safe='')}"}
    if found.status == "running":
        headers["Retry-After"] = "1"
    return Response(msgspec.json.encode(found), HTTPStatus.ACCEPTED, headers=headers, media_type=JSON)


def seconds_to_wait(wait: float | None, prefer: str | None) -> float | None:
    """How long the client waits for a result; None: until there is one."""
    if wait is not None or prefer is None:
        return wait
    told = PREFERRED_WAIT.search(prefer)
    if told is not None:
        return min(float(told[1]), LONGEST_WAIT_S)
    return 0.0 if "respond-async" in prefer.lower() else None


def wants_events(accept: str | None) -> bool:
    """Whether the client asks for events."""
    return accept is not None and STREAM in accept.lower()


async def one(event: bytes) -> AsyncIterator[bytes]:
    """A stream of one event."""
    yield event
