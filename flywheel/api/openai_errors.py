"""Errors as OpenAI's clients read them, on the routes that speak OpenAI's language."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from fastapi import Response

from flywheel.errors import FlywheelError

PATHS = ("/v1/chat/completions", "/v1/models")
SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "description": "what is wrong and what to do"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"], "description": "the parameter that cannot be used"},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
CODES = {
    HTTPStatus.UNAUTHORIZED: "invalid_api_key",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
}
NO_RETRY = {"X-Should-Retry": "false"}
"""OpenAI's clients try some statuses again; with this they do not."""


class ChatRequestError(FlywheelError):
    """Raised when a request cannot be done as it is. It names the parameter, and OpenAI's word for what is wrong."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class UnknownModelError(ChatRequestError):
    """Raised when a request names a model that is not served. The message says where to look."""


def speaks_openai(path: str) -> bool:
    """Whether a path is one that OpenAI's clients ask."""
    return path.startswith(PATHS)


def error_body(message: str, *, kind: str, param: str | None = None, code: str | None = None) -> bytes:
    """The error as JSON."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def error_response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer that says it."""
    told = HTTPStatus(status)
    kind = TYPES.get(told, "server_error" if told >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error")
    content = error_body(message, kind=kind, param=param, code=code or CODES.get(told))
    return Response(content, status_code=status, media_type="application/json", headers=headers)


def response_to(error: FlywheelError, status: int, headers: Mapping[str, str]) -> Response:
    """The answer to a request that ended in this error."""
    param, code = getattr(error, "param", None), getattr(error, "code", None)
    # What another request under way holds may be free when the client asks again; a conflict stays one.
    kept = NO_RETRY if status == HTTPStatus.CONFLICT else {}
    return error_response(status, str(error), param=param, code=code, headers={**headers, **kept})
