"""How OpenAPI describes the routes of tasks: what they take and what they answer."""

from http import HTTPStatus
from typing import Any

from flywheel.api.logs import JSON
from flywheel.api.problems import documented
from flywheel.api.task_events import DESCRIPTION as EVENTS
from flywheel.api.task_events import STREAM


def ref(name: str) -> dict[str, Any]:
    """A schema of ``task_models`` in an OpenAPI document."""
    return {"$ref": f"#/components/schemas/{name}"}


def asks(name: str) -> dict[str, Any]:
    """A route's request for OpenAPI."""
    return {"requestBody": {"required": True, "content": {JSON: {"schema": ref(name)}}}}


def answers(
    *described: tuple[HTTPStatus, str, str], body: bool = True, streams: bool = False, also: tuple[HTTPStatus, ...] = ()
) -> dict[int | str, dict[str, Any]]:
    """A route's answers for OpenAPI: status, schema and what it means."""
    refusals = [
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
        *also,
    ]
    if body:
        refusals += [
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.CONFLICT,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        ]
    found = documented(*refusals)
    found[HTTPStatus.FORBIDDEN.value]["description"] = "The key may not run tasks, or the task only measures models."
    for status, name, means in described:
        content = {JSON: {"schema": ref(name)}}
        if streams and status == HTTPStatus.OK:
            content[STREAM] = EVENTS
        found[status.value] = {"description": means, "content": content}
    return found


DONE = (HTTPStatus.OK, "TaskAnswer", "The task has ended, well or not.")
GOES_ON = (HTTPStatus.ACCEPTED, "UnfinishedTask", "It runs; ask for it at `Location`.")
