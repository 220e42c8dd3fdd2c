"""An agent behind an endpoint that speaks OpenAI's chat completions: vLLM, Ollama, a gateway, OpenAI itself."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from flywheel.arbiter.agents.endpoint import Endpoint
from flywheel.arbiter.agents.openai_exchange import Asked, Failure, exchange
from flywheel.arbiter.agents.openai_wire import Reading, Usage, request_of
from flywheel.arbiter.agents.rate_limits import Booking
from flywheel.arbiter.agents.reference import estimated_tokens
from flywheel.arbiter.agents.strategy import Answer, Pieces, failed_answer, send_whole
from flywheel.errors import AgentError
from flywheel.records import Message
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
REFUSAL = "the model refuses to answer"
"""The failure reason where the model itself said that it will not."""


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
            max_new_tokens: longest answer in the text dialect, in tokens; a chat says itself how long it may be.
            timeout_s: longest time for one task, all attempts and pauses together; where the answer is streamed, until
                it begins and between its pieces.
            requests_per_minute: not more in any minute; None: no limit.
            tokens_per_minute: the same of tokens, in and out.
            sleep: waits between attempts.
            jitter: numbers in 0–1 that spread them.
        """
        self._endpoint = endpoint
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._api_key_env = api_key_env
        self._prompt: PromptStyle = prompt
        self._model = model
        self._temperature = temperature
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

    async def ask(self, task: AgentTask, *, to: Pieces | None = None) -> Answer:
        """Ask for one task; repeats after 429, 5xx and lost connections, with growing, jittered pauses.

        Where pieces are wanted the answer is streamed, and nothing is repeated once a piece was passed on.

        Raises:
            AgentError: the key cannot be sent.
        """
        messages = prompt_messages(task, self._prompt)
        key = self._key()
        started_s = time.perf_counter()
        asked = Asked(
            task_id=task.id,
            url=self._url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            secret=key,
            body=self._body(task, messages),
            to=to if to is not None and to.wanted else None,
            timeout_s=self._timeout_s,
            started_s=started_s,
        )
        result = await self._attempts(asked, deadline=self._endpoint.clock() + self._timeout_s)
        answer = _answer(messages, result, latency_ms=(time.perf_counter() - started_s) * 1000)
        if asked.to is not None and answer.time_to_first_action_ms is None and answer.failure_reason is None:
            send_whole(answer, asked.to)  # it came as a whole, although it was asked to be streamed
        return answer

    def _key(self) -> str:
        key = os.environ.get(self._api_key_env, "")
        if not (key.isascii() and key.isprintable()):
            raise AgentError(f"the key in {self._api_key_env} cannot be sent")
        return key

    def _body(self, task: AgentTask, messages: tuple[Message, ...]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "temperature": self._temperature}
        if task.dialect == "text" and task.options.most_tokens is None:
            body["max_tokens"] = self._max_new_tokens
        return body | request_of(task, messages)

    async def _attempts(self, asked: Asked, *, deadline: float) -> Reading | Failure:
        estimate = _estimate(asked.body, self._max_new_tokens)
        for attempt in range(ATTEMPTS):
            booking = await self._book(estimate, deadline)
            if isinstance(booking, Failure):
                return booking
            result = await exchange(self._endpoint, asked, deadline=deadline)
            self._endpoint.limits.settle(booking, tokens=_tokens_of(result, estimate))
            if isinstance(result, Reading) or not result.worth_repeating or attempt == ATTEMPTS - 1:
                break
            pause_s = self._pause_s(attempt) if result.retry_after_s is None else result.retry_after_s
            if self._endpoint.clock() + pause_s >= deadline:
                return _out_of_time(result, pause_s, self._timeout_s)
            await self._sleep(pause_s)
        return result

    async def _book(self, tokens: int, deadline: float) -> Booking | Failure:
        """A place within the rate limits; waits for it."""
        while True:
            booking = self._endpoint.limits.book(
                tokens, requests_per_minute=self._requests_per_minute, tokens_per_minute=self._tokens_per_minute
            )
            if isinstance(booking, Booking):
                return booking
            if self._endpoint.clock() + booking >= deadline:
                reason = f"the rate limit allows no request for {booking:.1f} s, of {self._timeout_s:g} s"
                return Failure(reason=reason)
            await self._sleep(booking)

    def _pause_s(self, attempt: int) -> float:
        return min(FIRST_PAUSE_S * float(2**attempt), LONGEST_PAUSE_S) * (0.5 + self._jitter() / 2)


def _estimate(body: dict[str, Any], max_new_tokens: int) -> int:
    """Tokens that a request is thought to take, in and out."""
    texts = [message["content"] or "" for message in body["messages"]]
    written = body.get("max_completion_tokens") or body.get("max_tokens") or max_new_tokens
    return estimated_tokens(*texts) + int(written)


def _out_of_time(failure: Failure, pause_s: float, timeout_s: float) -> Failure:
    return Failure(
        reason=f"{failure.reason}; the next attempt in {pause_s:.1f} s would come after {timeout_s:g} s",
        retry_after_s=failure.retry_after_s,
    )


def _tokens_of(result: Reading | Failure, estimate: int) -> int:
    """What a request counts against the limit: what the endpoint says, or the estimate where it answered without."""
    reading = result.reading if isinstance(result, Failure) else result
    if reading is None:
        return 0
    return estimate if reading.usage is None else reading.usage.prompt_tokens + reading.usage.completion_tokens


def _answer(messages: tuple[Message, ...], result: Reading | Failure, *, latency_ms: float) -> Answer:
    reading = result.reading if isinstance(result, Failure) else result
    if reading is None:
        assert isinstance(result, Failure)
        return failed_answer(
            messages, result.reason, latency_ms=latency_ms, refused=result.refused, timed_out=result.timed_out
        )
    usage = reading.usage or _estimated(messages, reading)
    reason = result.reason if isinstance(result, Failure) else _why_none(reading)
    return Answer(
        text=(reading.text or "") if reason is None else "",
        failure_reason=reason,
        messages=messages,
        tool_calls=reading.tool_calls if reason is None else (),
        finish_reason=reading.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        thinking_tokens=usage.thinking_tokens,
        latency_ms=max(latency_ms, 0.001),
        time_to_first_action_ms=reading.first_action_ms,
        timed_out=isinstance(result, Failure) and result.timed_out,
    )


def _estimated(messages: tuple[Message, ...], reading: Reading) -> Usage:
    """What an endpoint that tells no tokens is thought to have taken."""
    written = (reading.text or "", *(call.arguments for call in reading.tool_calls))
    return Usage(
        prompt_tokens=estimated_tokens(*(message.content or "" for message in messages)),
        completion_tokens=estimated_tokens(*written),
    )


def _why_none(reading: Reading) -> str | None:
    """Why what was read is no answer; None where it is one."""
    if reading.text is not None or reading.tool_calls:
        return None
    if reading.refusal is not None:
        return REFUSAL
    if reading.finish_reason == "length":
        return None  # all it may write was spent on reasoning: cut off before its first word
    return "the endpoint's answer has no text"
