"""An agent behind an endpoint that speaks OpenAI's chat completions: vLLM, Ollama, a gateway, OpenAI itself."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import httpx
import msgspec
from msgspec import Meta, Struct

from flywheel.arbiter.agents.endpoint import Endpoint, retry_after_s
from flywheel.arbiter.agents.rate_limits import Booking
from flywheel.arbiter.agents.reference import estimated_tokens
from flywheel.arbiter.agents.strategy import Answer, failed_answer
from flywheel.errors import AgentError
from flywheel.records import Message
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
TOO_MANY_REQUESTS = 429
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises of content that is no JSON, is no UTF-8, or nests too deeply."""

Tokens = Annotated[int, Meta(ge=0)]


class _Details(Struct):
    reasoning_tokens: Tokens | None = None


class _Usage(Struct):
    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    completion_tokens_details: _Details | None = None


class _ReplyMessage(Struct):
    content: str | None = None


class _ReplyChoice(Struct):
    message: _ReplyMessage


class _Metered(Struct):
    usage: _Usage | None = None


class _Reply(Struct):
    choices: Annotated[list[_ReplyChoice], Meta(min_length=1)]
    usage: _Usage | None = None


class _Failure(Struct, frozen=True):
    """Why there is no response; ``worth_repeating`` where another attempt may get one."""

    reason: str
    worth_repeating: bool = False


class OpenAICompatibleAgent:
    """Asks an endpoint for each task. What fails is that task's failure reason.

    One deadline holds for all of a task's attempts and pauses. What would end after it is not begun.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        base_url: str,
        model: str,
        api_key_env: str,
        prompt: PromptStyle,
        temperature: float,
        max_new_tokens: int,
        timeout_s: float,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Nothing is sent before the first task.

        Args:
            endpoint: what agents of the same endpoint share.
            base_url: up to and including the version, for example ``http://localhost:8000/v1``.
            model: the endpoint's name of the model.
            api_key_env: the environment variable with the key; where it is not set none is sent, as local servers
                need none.
            prompt: with or without demonstrations.
            temperature: of the sampling.
            max_new_tokens: longest answer, in tokens.
            timeout_s: longest time for one task, all attempts and pauses together.
            requests_per_minute: not more in any minute; None: no limit.
            tokens_per_minute: the same of tokens, in and out.
            sleep: waits between attempts.
            jitter: numbers in 0–1 that spread them.
        """
        self._endpoint = endpoint
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._api_key_env = api_key_env
        self._prompt: PromptStyle = prompt
        self._options = {"model": model, "temperature": temperature, "max_tokens": max_new_tokens}
        self._max_new_tokens = max_new_tokens
        self._timeout_s = timeout_s
        self._requests_per_minute = requests_per_minute
        self._tokens_per_minute = tokens_per_minute
        self._sleep = sleep
        self._jitter = jitter

    @property
    def rest_s(self) -> float:
        """Seconds for which the endpoint is left alone; 0: it is asked."""
        return self._endpoint.breaker.rest_s

    @property
    def rests_because(self) -> str:
        """Why."""
        return self._endpoint.breaker.reason

    async def ask(self, task: AgentTask) -> Answer:
        """Ask for one task; repeats after 429, 5xx and lost connections, with growing, jittered pauses.

        Raises:
            AgentError: the key cannot be sent.
        """
        messages = prompt_messages(task, self._prompt)
        body = {**self._options, "messages": [{"role": m.role, "content": m.content or ""} for m in messages]}
        headers = self._headers()
        started = time.perf_counter()
        result = await self._attempts(body, headers, deadline=self._endpoint.clock() + self._timeout_s)
        latency_ms = (time.perf_counter() - started) * 1000
        if isinstance(result, _Failure):
            return failed_answer(messages, result.reason, latency_ms=latency_ms)
        return _answer(messages, result, latency_ms=latency_ms)

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self._api_key_env, "")
        if not (key.isascii() and key.isprintable()):
            raise AgentError(f"the key in {self._api_key_env} cannot be sent")
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def _attempts(
        self, body: dict[str, Any], headers: dict[str, str], *, deadline: float
    ) -> httpx.Response | _Failure:
        tokens = estimated_tokens(*(message["content"] for message in body["messages"])) + self._max_new_tokens
        for attempt in range(ATTEMPTS):
            booking = await self._book(tokens, deadline)
            if isinstance(booking, _Failure):
                return booking
            result = await self._post(body, headers, deadline)
            self._endpoint.limits.settle(booking, tokens=_tokens_of(result, tokens))
            if attempt == ATTEMPTS - 1 or not _is_worth_repeating(result):
                break
            pause_s = self._pause_s(attempt, result)
            if self._endpoint.clock() + pause_s >= deadline:
                return _out_of_time(result, pause_s, self._timeout_s)
            await self._sleep(pause_s)
        return result

    async def _book(self, tokens: int, deadline: float) -> Booking | _Failure:
        """A place within the rate limits; waits for it."""
        while True:
            booking = self._endpoint.limits.book(
                tokens, requests_per_minute=self._requests_per_minute, tokens_per_minute=self._tokens_per_minute
            )
            if isinstance(booking, Booking):
                return booking
            if self._endpoint.clock() + booking >= deadline:
                return _Failure(f"the rate limit allows no request for {booking:.1f} s, of {self._timeout_s:g} s")
            await self._sleep(booking)

    async def _post(self, body: dict[str, Any], headers: dict[str, str], deadline: float) -> httpx.Response | _Failure:
        """The response, or why there is none. Timeouts are not repeated: the time is spent."""
        breaker = self._endpoint.breaker
        request = breaker.enter()
        if isinstance(request, str):
            return _Failure(request)
        left_s = deadline - self._endpoint.clock()
        try:
            async with asyncio.timeout(left_s):
                response = await self._endpoint.client.post(self._url, json=body, headers=headers)
        except TimeoutError:
            failure = _Failure(f"no answer within {self._timeout_s:g} s")
            # Where waiting for the rate limit left it little time, it says nothing about the endpoint.
            if left_s >= self._timeout_s / 2:
                breaker.failed(request, failure.reason)
            else:
                breaker.abandoned(request)
            return failure
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = _Failure(f"the endpoint cannot be reached: {type(error).__name__}", True)
            breaker.failed(request, failure.reason)
            return failure
        except BaseException:
            breaker.abandoned(request)
            raise
        if response.is_server_error:
            breaker.failed(request, f"it answered {response.status_code}")
        elif response.status_code == TOO_MANY_REQUESTS:
            breaker.abandoned(request)
            self._endpoint.limits.pause(retry_after_s(response) or 0.0)
        else:
            breaker.succeeded(request)
        return response

    def _pause_s(self, attempt: int, result: httpx.Response | _Failure) -> float:
        asked = None if isinstance(result, _Failure) else retry_after_s(result)
        if asked is not None:
            return asked
        return min(FIRST_PAUSE_S * float(2**attempt), LONGEST_PAUSE_S) * (0.5 + self._jitter() / 2)


def _is_worth_repeating(result: httpx.Response | _Failure) -> bool:
    if isinstance(result, _Failure):
        return result.worth_repeating
    return result.status_code == TOO_MANY_REQUESTS or result.is_server_error


def _out_of_time(result: httpx.Response | _Failure, pause_s: float, timeout_s: float) -> _Failure:
    said = result.reason if isinstance(result, _Failure) else f"the endpoint answered {result.status_code}"
    return _Failure(f"{said}; the next attempt in {pause_s:.1f} s would come after {timeout_s:g} s")


def _tokens_of(result: httpx.Response | _Failure, estimate: int) -> int:
    """What a request counts against the limit: what the endpoint says, or the estimate where it answered without."""
    if isinstance(result, _Failure) or not result.is_success:
        return 0
    try:
        usage = msgspec.json.decode(result.content, type=_Metered).usage
    except UNREADABLE:
        return estimate
    return estimate if usage is None else usage.prompt_tokens + usage.completion_tokens


def _answer(messages: tuple[Message, ...], response: httpx.Response, *, latency_ms: float) -> Answer:
    if not response.is_success:
        # The body is left out: some endpoints repeat the key in it.
        return failed_answer(messages, f"the endpoint answered {response.status_code}", latency_ms=latency_ms)
    try:
        reply = msgspec.json.decode(response.content, type=_Reply)
    except UNREADABLE as error:
        return failed_answer(messages, f"the endpoint's answer cannot be read: {error}", latency_ms=latency_ms)
    text = reply.choices[0].message.content
    usage = reply.usage or _Usage()
    details = usage.completion_tokens_details or _Details()
    return Answer(
        text=text or "",
        failure_reason="the endpoint's answer has no text" if text is None else None,
        messages=messages,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        thinking_tokens=details.reasoning_tokens or 0,
        latency_ms=max(latency_ms, 0.001),
    )
