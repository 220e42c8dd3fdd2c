"""A task as server-sent events (the HTML standard, section 9.2): decisions, text on its way, the result."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from flywheel.api.problems import status_of
from flywheel.api.running_tasks import Event, RunningTask
from flywheel.api.task_models import TaskAnswer
from flywheel.arbiter.running.claims import Known
from flywheel.arbiter.task import TaskResult
from flywheel.errors import FlywheelError
from flywheel.records import RoutingDecision

STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
SILENCE_S = 10.0
"""After which a comment is sent, so that nobody between takes the connection for dead."""
POLL_S = 0.5
DESCRIPTION: dict[str, Any] = {
    "schema": {
        "type": "string",
        "description": (
            "Server-sent events, each with JSON: `decision` (the routing log, for each agent that is asked), `text` "
            "(`{attempt, iteration, text}`, in which a higher attempt or iteration begins the answer anew), and at the "
            "end `result` (as in the answer) or `problem`. A task that another process runs has the end alone."
        ),
    }
}


def nothing() -> None:
    """For who only watches."""


class EventStream(StreamingResponse):
    """An answer in events; ``when_left`` is called when nobody reads it any more, whether or not it was begun."""

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        when_left: Callable[[], None] = nothing,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(events, media_type=STREAM, headers={**HEADERS, **(headers or {})})
        self._when_left = when_left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._when_left()


async def followed(running: RunningTask) -> AsyncIterator[bytes]:
    """The events of a task that this process runs."""
    async for event in running.events(every_s=SILENCE_S):
        yield b": it runs\n\n" if event is None else _named(event)
    yield await _end(running)


async def awaited_elsewhere(known: Callable[[], Known | None]) -> AsyncIterator[bytes]:
    """The end of a task that another process runs."""
    silent_s = 0.0
    while True:
        try:
            found = await run_in_threadpool(known)
        except FlywheelError as error:
            yield _problem(error)
            return
        if found is not None and found.result is not None:
            yield ended(found.result)
            return
        if found is None or not found.runs:
            yield _event("problem", {"detail": "nobody runs the task any more; ask for it without a stream"})
            return
        await asyncio.sleep(POLL_S)
        silent_s += POLL_S
        if silent_s >= SILENCE_S:
            silent_s = 0.0
            yield b": it runs\n\n"


def ended(result: TaskResult) -> bytes:
    """The last event of a task that has a result."""
    return _event("result", TaskAnswer.of(result))


async def _end(running: RunningTask) -> bytes:
    try:
        result = await running.result()
    except FlywheelError as error:
        return _problem(error)
    assert result is not None, "waited for without a limit"
    return ended(result)


def _problem(error: FlywheelError) -> bytes:
    status = status_of(error)
    return _event("problem", {"title": status.phrase, "status": status.value, "detail": str(error)})


def _named(event: Event) -> bytes:
    if isinstance(event, RoutingDecision):
        return _event("decision", event)
    told: dict[str, Any] = {"attempt": event.attempt, "iteration": event.iteration, "text": event.text}
    return _event("text", told if event.call is None else {**told, "call": event.call})


def _event(name: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
