"""One request to an endpoint and its answer, read as a whole or as it comes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from flywheel.arbiter.agents.circuit_breaker import Pass
from flywheel.arbiter.agents.endpoint import Endpoint, retry_after_s
from flywheel.arbiter.agents.openai_wire import Assembly, Reading, error_in, reading_of
from flywheel.arbiter.agents.server_sent_events import EventData
from flywheel.arbiter.agents.strategy import Pieces

TOO_MANY_REQUESTS = 429
REFUSALS = frozenset({400, 413, 422})
"""What an endpoint answers to a request that it will never take as it is."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of one streamed answer."""
EVENTS = "text/event-stream"
OVERDUE = 0.8
"""Share of its time after which an endpoint that is given up counts as one that did not answer."""


class Asked(Struct, frozen=True, kw_only=True):
    """A request as it is sent.

    Attributes:
        task_id: of the task that it is for.
        url: where to.
        headers: with the key.
        secret: the key, which nothing that is logged may have.
        body: what is asked.
        to: where the answer goes while it is written; None: it is wanted as a whole.
        timeout_s: longest time until the answer begins, and between its pieces.
        started_s: when the task was begun, by ``time.perf_counter``.
    """

    task_id: str
    url: str
    headers: dict[str, str]
    secret: str
    body: dict[str, Any]
    to: Pieces | None
    timeout_s: float
    started_s: float


class Failure(Struct, frozen=True, kw_only=True):
    """Why there is no answer.

    Attributes:
        reason: in words.
        worth_repeating: whether another attempt may get one.
        refused: whether the endpoint refuses this request, whoever sends it.
        timed_out: whether its time was over.
        retry_after_s: how long it asks to wait before another attempt.
        reading: what had come of the answer until then.
    """

    reason: str
    worth_repeating: bool = False
    refused: bool = False
    timed_out: bool = False
    retry_after_s: float | None = None
    reading: Reading | None = None


async def exchange(endpoint: Endpoint, asked: Asked, *, deadline: float) -> Reading | Failure:
    """The answer to one request, or why there is none. The endpoint's circuit breaker learns how it went.

    Args:
        endpoint: which is asked.
        asked: the request.
        deadline: until when the answer must have begun, or be there as a whole, by the endpoint's clock.
    """
    breaker = endpoint.breaker
    entered = breaker.enter()
    if isinstance(entered, str):
        return Failure(reason=entered)
    left_s = deadline - endpoint.clock()
    sending = _Exchange(endpoint, asked, entered, deadline)
    try:
        return await sending.result()
    except TimeoutError:
        failure = sending.late()
        # Where waiting for the rate limit left it little time, it says nothing about the endpoint.
        if left_s >= asked.timeout_s / 2:
            breaker.failed(entered, failure.reason)
        else:
            breaker.abandoned(entered)
        return failure
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        failure = sending.lost(error)
        breaker.failed(entered, failure.reason)
        return failure
    except asyncio.CancelledError:
        # Whoever keeps the same time for the agent may give up a moment before this one would have.
        if sending.is_overdue:
            breaker.failed(entered, sending.late().reason)
        else:
            breaker.abandoned(entered)
        raise
    except BaseException:
        breaker.abandoned(entered)
        raise


class _Exchange:
    """One attempt on its way."""

    def __init__(self, endpoint: Endpoint, asked: Asked, entered: Pass, deadline: float) -> None:
        self._endpoint, self._asked, self._entered, self._deadline = endpoint, asked, entered, deadline
        self._assembly: Assembly | None = None
        self._first_action_ms: float | None = None
        self._last_sign = endpoint.clock()

    @property
    def is_overdue(self) -> bool:
        """Whether the endpoint has been silent for about as long as it may."""
        return self._endpoint.clock() - self._last_sign >= OVERDUE * self._asked.timeout_s

    async def result(self) -> Reading | Failure:
        asked, client = self._asked, self._endpoint.client
        if asked.to is None:
            async with asyncio.timeout(self._left_s):
                response = await client.post(asked.url, json=asked.body, headers=asked.headers)
            return self._refusal(response) or self._whole(response.content)
        body = asked.body | {"stream": True, "stream_options": {"include_usage": True}}
        request = client.build_request("POST", asked.url, json=body, headers=asked.headers)
        async with asyncio.timeout(self._left_s):
            response = await client.send(request, stream=True)
        async with aclosing(response):
            if not response.is_success or EVENTS not in response.headers.get("content-type", ""):
                async with asyncio.timeout(self._left_s):
                    await response.aread()
                return self._refusal(response) or self._whole(response.content)
            return await self._streamed(response.aiter_bytes())

    def late(self) -> Failure:
        """What a time that is over means."""
        limit = f"{self._asked.timeout_s:g} s"
        if self._assembly is None:
            return Failure(reason=f"no answer within {limit}", timed_out=True)
        broken = self._broken(f"no more of the answer within {limit}, and it was not complete", repeat=False)
        return msgspec.structs.replace(broken, timed_out=True)

    def lost(self, error: Exception) -> Failure:
        """What a connection that is lost, or cannot be had, means."""
        name = type(error).__name__
        if self._assembly is None:
            return Failure(reason=f"the endpoint cannot be reached: {name}", worth_repeating=True)
        return self._broken(f"the connection was lost in the middle of the answer: {name}")

    @property
    def _left_s(self) -> float:
        return self._deadline - self._endpoint.clock()

    def _refusal(self, response: httpx.Response) -> Failure | None:
        """Why this response has no answer; None where it has one."""
        breaker, status = self._endpoint.breaker, response.status_code
        if response.is_success:
            breaker.succeeded(self._entered)
            return None
        reason = f"the endpoint answered {status}"
        wait_s = retry_after_s(response)
        if response.is_server_error:
            breaker.failed(self._entered, f"it answered {status}")
            return Failure(reason=reason, worth_repeating=True, retry_after_s=wait_s)
        if status == TOO_MANY_REQUESTS:
            breaker.abandoned(self._entered)
            self._endpoint.limits.pause(wait_s or 0.0)
            return Failure(reason=reason, worth_repeating=True, retry_after_s=wait_s)
        breaker.succeeded(self._entered)
        if status not in REFUSALS:
            return Failure(reason=reason)  # of others the body is left out: some endpoints repeat the key in it
        told = error_in(response.content, secret=self._asked.secret)
        return Failure(reason=f"{reason}: {told}" if told else reason, refused=True)

    def _whole(self, content: bytes) -> Reading | Failure:
        try:
            return reading_of(content, self._asked.task_id)
        except ValueError as error:
            return Failure(reason=str(error))

    async def _streamed(self, chunks: AsyncIterator[bytes]) -> Reading | Failure:
        data, size = EventData(), 0
        while not (self._assembly and self._assembly.done):
            async with asyncio.timeout(self._asked.timeout_s if self._assembly else self._left_s):
                chunk = await anext(chunks, None)
            self._last_sign = self._endpoint.clock()
            try:
                self._take(data.end() if chunk is None else data.take(chunk))
            except ValueError as error:
                self._endpoint.breaker.failed(self._entered, str(error))
                return self._broken(str(error))
            if chunk is None:
                break
            size += len(chunk)
            if size > LARGEST_ANSWER:
                reason = f"the endpoint streamed more than {LARGEST_ANSWER:,} bytes"
                self._endpoint.breaker.failed(self._entered, reason)
                return self._broken(reason, repeat=False)
        if self._assembly is None or not self._assembly.complete:
            reason = "the endpoint's stream ended before its answer was complete"
            self._endpoint.breaker.failed(self._entered, reason)
            return self._broken(reason)
        self._endpoint.breaker.succeeded(self._entered)
        return self._read(self._assembly)

    def _take(self, events: Iterable[bytes]) -> None:
        to = self._asked.to
        assert to is not None, "streamed for somebody"
        for event in events:
            self._assembly = self._assembly or Assembly(self._asked.task_id)
            to.send("")  # what brings no piece shows that the endpoint is at work
            for piece in self._assembly.take(event):
                if piece and self._first_action_ms is None:
                    self._first_action_ms = (time.perf_counter() - self._asked.started_s) * 1000
                to.send(piece)

    def _read(self, assembly: Assembly) -> Reading:
        reading = assembly.reading()
        reading.first_action_ms = self._first_action_ms
        return reading

    def _broken(self, reason: str, *, repeat: bool = True) -> Failure:
        """A failure within the answer; another attempt would begin it anew, where a piece of it is away already."""
        reading = self._read(self._assembly) if self._assembly else None
        return Failure(reason=reason, worth_repeating=repeat and self._first_action_ms is None, reading=reading)
