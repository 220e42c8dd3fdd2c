"""An agent behind an endpoint that speaks OpenAI's chat completions: vLLM, Ollama, a gateway, OpenAI itself."""

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import httpx
import msgspec
from msgspec import Meta, Struct

from flywheel.arbiter.agents.strategy import Answer, Progress, failed_answer, ignore_progress
from flywheel.errors import AgentError
from flywheel.records import Message
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
TOO_MANY_REQUESTS = 429
CONCURRENT_REQUESTS = 8

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


class _Reply(Struct):
    choices: Annotated[list[_ReplyChoice], Meta(min_length=1)]
    usage: _Usage | None = None


class OpenAICompatibleAgent:
    """Asks an endpoint, several tasks at a time. What fails for one task is that task's failure reason."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key_env: str,
        prompt: PromptStyle,
        temperature: float,
        max_new_tokens: int,
        timeout_s: float,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Nothing is sent before the first task.

        Args:
            base_url: up to and including the version, for example ``http://localhost:8000/v1``.
            model: the endpoint's name of the model.
            api_key_env: the environment variable with the key; where it is not set none is sent, as local servers
                need none.
            prompt: with or without demonstrations.
            temperature: of the sampling.
            max_new_tokens: longest answer, in tokens.
            timeout_s: longest wait for one response.
            sleep: waits between attempts.
            jitter: numbers in 0–1 that spread them.
        """
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._api_key_env = api_key_env
        self._prompt: PromptStyle = prompt
        self._options = {"model": model, "temperature": temperature, "max_tokens": max_new_tokens}
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._jitter = jitter

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """Ask for every task; retries 429, 5xx and lost connections with growing, jittered pauses.

        Raises:
            AgentError: the base URL is not one.
        """
        key = os.environ.get(self._api_key_env, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answers: list[Answer] = []
        try:
            client = httpx.Client(headers=headers, timeout=self._timeout_s)
        except (ValueError, TypeError) as error:  # a key that is no header value
            raise AgentError(f"the key in {self._api_key_env} cannot be sent") from error
        with client, ThreadPoolExecutor(CONCURRENT_REQUESTS) as threads:
            for answer in threads.map(lambda task: self._ask(client, task), tasks):
                answers.append(answer)
                on_progress(len(answers), len(tasks))
        return answers

    def _ask(self, client: httpx.Client, task: AgentTask) -> Answer:
        messages = prompt_messages(task, self._prompt)
        body = {**self._options, "messages": [{"role": m.role, "content": m.content or ""} for m in messages]}
        started = time.perf_counter()
        result: httpx.Response | str = "not asked"
        for attempt in range(ATTEMPTS):
            result = self._post(client, body)
            if attempt == ATTEMPTS - 1 or not _is_worth_repeating(result):
                break
            self._sleep(self._pause_s(attempt, result))
        latency_ms = (time.perf_counter() - started) * 1000
        if isinstance(result, str):
            return failed_answer(messages, result, latency_ms=latency_ms)
        return _answer(messages, result, latency_ms=latency_ms)

    def _post(self, client: httpx.Client, body: dict[str, object]) -> httpx.Response | str:
        """The response, or in words why there is none. Timeouts are not repeated: the budget of waiting is spent."""
        try:
            return client.post(self._url, json=body)
        except httpx.TimeoutException:
            return f"no answer within {self._timeout_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{CONNECTION_LOST}: {type(error).__name__}"

    def _pause_s(self, attempt: int, result: httpx.Response | str) -> float:
        asked = "" if isinstance(result, str) else result.headers.get("retry-after", "")
        if asked.isdigit():
            return min(float(asked), LONGEST_PAUSE_S)
        return min(FIRST_PAUSE_S * float(2**attempt), LONGEST_PAUSE_S) * (0.5 + self._jitter() / 2)


CONNECTION_LOST = "the endpoint cannot be reached"


def _is_worth_repeating(result: httpx.Response | str) -> bool:
    if isinstance(result, str):
        return result.startswith(CONNECTION_LOST)
    return result.status_code == TOO_MANY_REQUESTS or result.is_server_error


def _answer(messages: tuple[Message, ...], response: httpx.Response, *, latency_ms: float) -> Answer:
    if not response.is_success:
        # The body is left out: some endpoints repeat the key in it.
        return failed_answer(messages, f"the endpoint answered {response.status_code}", latency_ms=latency_ms)
    try:
        reply = msgspec.json.decode(response.content, type=_Reply)
    except msgspec.DecodeError as error:
        return failed_answer(messages, f"the endpoint's answer cannot be read: {error}", latency_ms=latency_ms)
    text = reply.choices[0].message.content
    if text is None:
        return failed_answer(messages, "the endpoint's answer has no text", latency_ms=latency_ms)
    usage = reply.usage or _Usage()
    details = usage.completion_tokens_details or _Details()
    return Answer(
        text=text,
        messages=messages,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        thinking_tokens=details.reasoning_tokens or 0,
        latency_ms=max(latency_ms, 0.001),
    )
