"""A language model behind an endpoint, on a port of this machine: it says what a test tells it to."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

Body = dict[str, Any]
Chunk = dict[str, Any] | bytes | float | BaseException
"""A chunk's delta, raw bytes, seconds to wait, or what breaks the stream."""
USAGE = {"prompt_tokens": 31, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 5}}


def call(name: str, arguments: str, id: str = "call_1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(message: dict[str, Any], finish: str = "stop") -> Response:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Response(json.dumps({"choices": [choice], "usage": USAGE}), media_type="application/json")


def said(text: str) -> Callable[[Body], Response]:
    """Says this, streamed word by word where that is asked for."""

    def answer(body: Body) -> Response:
        if not body.get("stream"):
            return completion({"content": text})
        words = [{"content": word} for word in text.split(" ")]
        spaced = [words[0], *({"content": f" {word['content']}"} for word in words[1:])]
        return streamed(*spaced)

    return answer


def streamed(*chunks: Chunk, finish: str | None = "stop", usage: bool = True) -> Response:
    async def events() -> AsyncIterator[bytes]:
        yield event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for chunk in chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            if isinstance(chunk, float):
                await asyncio.sleep(chunk)
                continue
            yield chunk if isinstance(chunk, bytes) else event({"choices": [{"index": 0, "delta": chunk}]})
        if finish is not None:
            yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            if usage:
                yield event({"choices": [], "usage": USAGE})
            yield b"data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


def event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


def refused(status: int, message: str = "no") -> Callable[[Body], Response]:
    return lambda body: Response(json.dumps({"error": {"message": message}}), status_code=status)


class Model:
    """Its requests are kept; ``left`` is set when somebody went away before the end of an answer."""

    def __init__(self) -> None:
        self.answer: Callable[[Body], Response] = said("Hello there, friend")
        self.bodies: list[Body] = []
        self.left = threading.Event()
        self.app = FastAPI()
        self.app.add_api_route("/v1/chat/completions", self._complete, methods=["POST"], response_model=None)

    async def _complete(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        answer = self.answer(self.bodies[-1])
        if isinstance(answer, StreamingResponse):
            answer.body_iterator = self._watched(answer.body_iterator)
        return answer

    async def _watched(self, events: Any) -> AsyncIterator[Any]:
        try:
            async for one in events:
                yield one
        except (asyncio.CancelledError, GeneratorExit):
            self.left.set()
            raise


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """An app on a port of its own; its URL, from when it answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=3))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            until = time.monotonic() + 60
            while not server.started and thread.is_alive() and time.monotonic() < until:
                time.sleep(0.01)
            assert server.started
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
