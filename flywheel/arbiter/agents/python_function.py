"""An agent that is a function of a team's own: ``module:function``, sync or async."""

import asyncio
import importlib
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import reduce
from typing import Any

from flywheel.arbiter.agents.background import FUNCTIONS, in_thread
from flywheel.arbiter.agents.exchange import GivenTask, answer_of, given, reply_of, shortened
from flywheel.arbiter.agents.strategy import Answer, failed_answer
from flywheel.errors import AgentError
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

Function = Callable[[GivenTask], Any]


class PythonAgent:
    """Calls a function with a ``GivenTask``; it returns a text, a mapping or a ``Reply``, or an awaitable of one.

    What it raises becomes the failure reason. A plain function runs in a thread, which nobody can stop: one that
    overruns its time goes on, and as soon as ``max_overdue`` of them do, further tasks fail at once and say so.
    Coroutines run in an event loop of their own and are cancelled.
    """

    def __init__(self, function: str, *, prompt: PromptStyle, timeout_s: float, max_overdue: int) -> None:
        """Nothing is imported before the first task."""
        self._name = function
        self._prompt: PromptStyle = prompt
        self._timeout_s = timeout_s
        self._max_overdue = max_overdue
        self._overdue = 0

    async def ask(self, task: AgentTask) -> Answer:
        """The function's answer.

        Raises:
            AgentError: there is no such function.
        """
        messages = prompt_messages(task, self._prompt)
        started, timed_out = time.perf_counter(), False
        try:
            async with asyncio.timeout(self._timeout_s) as timer:
                reply = reply_of(await self._call(given(task, messages)))
        except AgentError:
            raise
        except TimeoutError as error:
            timed_out = timer.expired()
            reason = f"no answer within {self._timeout_s:g} s" if timed_out else _told(error)
        except _RaisedError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - whatever a function raises is its failure
            reason = _told(error)
        else:
            return answer_of(reply, messages, latency_ms=(time.perf_counter() - started) * 1000, task=task)
        latency_ms = (time.perf_counter() - started) * 1000
        return failed_answer(messages, f"{self._name}: {shortened(reason)}", latency_ms=latency_ms, timed_out=timed_out)

    async def _call(self, task: GivenTask) -> Any:
        if self._overdue >= self._max_overdue:
            raise RuntimeError(f"{self._overdue} earlier calls overran {self._timeout_s:g} s and have not returned")
        call = in_thread(lambda: _called(self._name, task))
        try:
            found = await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            if not call.done():
                self._overdue += 1
                loop = asyncio.get_running_loop()
                call.add_done_callback(lambda _: loop.call_soon_threadsafe(self._returned))
            raise
        return await FUNCTIONS.run(_result(found)) if inspect.isawaitable(found) else found

    def _returned(self) -> None:
        self._overdue -= 1


def function_of(name: str) -> Function:
    """The function that ``module:function`` names.

    Raises:
        AgentError: it cannot be imported, or is no function.
    """
    module, _, path = name.partition(":")
    try:
        found = reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise AgentError(f"the function {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise AgentError(f"{name!r} is no function")
    function: Function = found
    return function


class _RaisedError(Exception):
    """What a function raised that would end an event loop, or pass for its caller's own cancellation; in words."""


def _called(name: str, task: GivenTask) -> Any:
    try:
        return function_of(name)(task)
    except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
        raise _RaisedError(_told(error)) from error


async def _result(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as error:
        raise _RaisedError(_told(error)) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _RaisedError(_told(error)) from error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
