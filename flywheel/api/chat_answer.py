"""What became of a task as a chat completion: whole, or as chunks of a stream."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import Response
from msgspec import Struct

from flywheel.api.openai_errors import NO_RETRY, error_body, error_response
from flywheel.arbiter.agents.strategy import CallPiece, FinishReason
from flywheel.arbiter.running.streaming import TextDelta
from flywheel.arbiter.task import NOTHING_SPENT, Failure, TaskResult
from flywheel.records import RoutingDecision, ToolCall

JSON = "application/json"
DONE = b"data: [DONE]\n\n"
AGENT_FAILED: dict[str, HTTPStatus] = {
    "timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "no-agent": HTTPStatus.SERVICE_UNAVAILABLE,
    "saturated": HTTPStatus.SERVICE_UNAVAILABLE,
    "cancelled": HTTPStatus.CONFLICT,
}
"""By kind of failure; of all others it is a bad gateway."""
SAVED_BY_AN_ANSWER = frozenset({"rejected", "budget-exhausted"})
"""Failures of tasks that have an answer, which the evaluation does not accept. The client gets it, and is told."""


def headers_of(decision: RoutingDecision, *, agent_id: str, replayed: bool = False) -> dict[str, str]:
    """Who answers, and how that agent was chosen. One that was named, or a cache, has no propensity."""
    headers = {"X-Flywheel-Task-Id": quote(decision.task_id, safe="!#$&'()*+,/:;=?@[]~ ")}
    headers["X-Flywheel-Agent"] = quote(agent_id, safe="!#$&'()*+,/:;=?@[]~")
    chosen = [one for one in decision.candidate_agents if one.agent_id == agent_id]
    if chosen:
        headers["X-Flywheel-Strategy"] = decision.strategy
        headers["X-Flywheel-Propensity"] = f"{chosen[0].propensity:.6g}"
    return headers | ({"Idempotent-Replayed": "true"} if replayed else {})


def headers_of_result(result: TaskResult) -> dict[str, str]:
    """The same of a task that has ended, and why its answer is not accepted, where it is not."""
    headers = headers_of(result.decision, agent_id=result.agent_id, replayed=result.replayed)
    if result.failure is not None and failure_of(result) is None:
        headers["X-Flywheel-Not-Accepted"] = result.failure.kind
    return headers


def failure_of(result: TaskResult) -> Failure | None:
    """Why there is nothing to give the client; None where there is an answer, accepted or not."""
    failure = result.failure
    return None if failure is None or failure.kind in SAVED_BY_AN_ANSWER else failure


def completion_response(result: TaskResult) -> Response:
    """The answer as a whole, or the error."""
    headers, failure = headers_of_result(result), failure_of(result)
    if failure is not None:
        return failure_response(failure, headers, replayed=result.replayed)
    return Response(msgspec.json.encode(completion(result)), media_type=JSON, headers=headers)


def failure_response(failure: Failure, headers: dict[str, str], *, replayed: bool) -> Response:
    """What is said of a task that has no answer."""
    status = HTTPStatus.BAD_REQUEST if failure.refused else AGENT_FAILED.get(failure.kind, HTTPStatus.BAD_GATEWAY)
    message = failure.reason
    if replayed:  # it stays so under this id, however often it is asked for
        message = f"{message}; this was found when the task was run. Try again under another task id"
        headers = headers | NO_RETRY
    return error_response(status, message, code=failure.kind, headers=headers)


def completion(result: TaskResult) -> dict[str, Any]:
    """The answer in OpenAI's shape."""
    message: dict[str, Any] = {"role": "assistant", "content": result.text, "refusal": None}
    if result.tool_calls:
        message |= {"content": result.text or None, "tool_calls": [_call(call) for call in result.tool_calls]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(result)}
    head = _head(result.task_id, result.agent_id, result.decision, kind="chat.completion")
    return head | {"choices": [choice], "usage": usage(result)}


def finish_reason(result: TaskResult) -> FinishReason:
    """Why the answer ends; where the agent does not tell, it ended it."""
    return result.finish_reason or ("tool_calls" if result.tool_calls else "stop")


def usage(result: TaskResult) -> dict[str, Any]:
    """What the agent took whose answer it is; nothing where it was in the cache."""
    spent = result.attempts[-1].spent if result.attempts else NOTHING_SPENT
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.output_tokens,
        "total_tokens": spent.tokens,
        "completion_tokens_details": {"reasoning_tokens": spent.thinking_tokens},
    }


class Chunks(Struct, frozen=True, kw_only=True):
    """A stream of chunks under one decision, each as a server-sent event."""

    decision: RoutingDecision
    agent_id: str
    with_usage: bool

    def begin(self) -> bytes:
        """What comes first: who speaks."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def piece(self, delta: TextDelta) -> bytes:
        """A piece of the answer."""
        return self._chunk({"content": delta.text} if delta.call is None else {"tool_calls": [_call_piece(delta.call)]})

    def whole(self, result: TaskResult) -> Iterator[bytes]:
        """An answer that is there at once: an earlier one, or a cached one."""
        if result.text:
            yield self._chunk({"content": result.text})
        for index, call in enumerate(result.tool_calls):
            piece = CallPiece(index=index, id=call.id, name=call.name, arguments=call.arguments)
            yield self._chunk({"tool_calls": [_call_piece(piece)]})

    def end(self, result: TaskResult) -> Iterator[bytes]:
        """Why the answer ends, what it took, or what went wrong in its midst."""
        failure = failure_of(result)
        if failure is not None:
            yield self.broken(failure.reason, code=failure.kind)
            return
        yield self._chunk({}, finish_reason(result))
        if self.with_usage:
            yield self._event({"choices": [], "usage": usage(result)})
        yield DONE

    def broken(self, reason: str, *, code: str | None) -> bytes:
        """What went wrong in the midst of the answer; clients raise it."""
        return _event(error_body(reason, kind="server_error", code=code))

    def _chunk(self, delta: dict[str, Any], finish: FinishReason | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._event({"choices": [choice]} | ({"usage": None} if self.with_usage else {}))

    def _event(self, content: dict[str, Any]) -> bytes:
        head = _head(self.decision.task_id, self.agent_id, self.decision, kind="chat.completion.chunk")
        return _event(msgspec.json.encode(head | content))


def _head(task_id: str, agent_id: str, decision: RoutingDecision, *, kind: str) -> dict[str, Any]:
    return {"id": task_id, "object": kind, "created": int(decision.timestamp.timestamp()), "model": agent_id}


def _event(content: bytes) -> bytes:
    return b"data: " + content + b"\n\n"


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _call_piece(piece: CallPiece) -> dict[str, Any]:
    begun = {"id": piece.id, "type": "function"} if piece.id is not None else {}
    named = {"name": piece.name} if piece.name is not None else {}
    return {"index": piece.index, **begun, "function": {**named, "arguments": piece.arguments}}
