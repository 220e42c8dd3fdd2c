"""Wrappers that add the collector to a router, an agent or an evaluator whose code stays as it is.

What is wrapped is a function, or an object with the method that ``flywheel.arbiter`` names: ``decide`` of a router,
``answer`` of an agent, ``evaluate`` of an evaluator. Coroutine functions stay coroutine functions, exceptions
pass, and everything else of an object is reached as before. They take down in the current task (``Collector.task``)
what they see:

- a router returns an agent's id, a ``Choice`` or a ``RoutingDecision``;
- an agent returns an ``Answer``, an ``Execution``, text, or anything else, which counts as success; one that is handed
  a list of benchmark tasks and returns as many answers is logged once for each, under the tasks' ids;
- an evaluator returns an ``Evaluation`` or a mapping of its fields.
"""

import functools
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flywheel.collection.task_log import TaskLog, current_task, fields_of
from flywheel.records import Execution, Message, RoutingDecision, Strategy

if TYPE_CHECKING:
    from flywheel.collection.collector import Collector

T = TypeVar("T")
LOGGER = logging.getLogger("flywheel.collection")
Observe = Callable[[tuple[Any, ...], Any, float], None]
"""Called with a call's arguments, its result and its milliseconds."""


class Observed:
    """An object one method of which is observed. Everything else is the object's own."""

    def __init__(self, target: object, method: str, observed: Callable[..., Any]) -> None:
        self._target = target
        setattr(self, method, observed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def wrapped_router(router: T) -> T:
    """See ``Collector.wrap_router``."""

    def observe(_: tuple[Any, ...], result: Any, __: float) -> None:
        task = current_task()
        if task is None:
            return
        if isinstance(result, str):
            choice = {"strategy": Strategy.FALLBACK, "confidence": 1.0, "candidate_agents": ()}
            task.routed(result, primary_reason="chosen by the service's own router", **choice)
        elif isinstance(result, RoutingDecision):
            task.routed(result.selected_agent_id, **fields_of(result))
        else:
            task.routed(result.selected, **_choice_fields(result))

    return _wrapped(router, "decide", observe)


def wrapped_agent(collector: "Collector", agent: T, *, agent_id: str, task_type: str | None) -> T:
    """See ``Collector.wrap_agent``. Outside of a task a call is one of its own, where ``task_type`` is given."""

    def observe(args: tuple[Any, ...], result: Any, latency_ms: float) -> None:
        task = current_task()
        batch = args[0] if args else None
        if isinstance(result, list) and isinstance(batch, Sequence) and len(batch) == len(result):
            for benchmark_task, answer in zip(batch, result, strict=True):
                ids = {"task_id": benchmark_task.id, "agent_id": agent_id, "timestamp": collector.clock()}
                fields = {**_execution_fields(answer), **ids}
                collector.log_made(functools.partial(Execution, **fields))
        elif task is not None:
            asked = (Message(role="user", content=batch),) if isinstance(batch, str) else ()
            task.executed(**{"latency_ms": latency_ms, **_execution_fields(result, asked)})

    observed = _wrapped(agent, "answer", observe)
    if task_type is None or not callable(observed):
        return observed
    return cast("T", _in_a_task(TaskLog(collector, task_type=task_type, agent_id=agent_id), observed))


def wrapped_evaluator(evaluator: T) -> T:
    """See ``Collector.wrap_evaluator``."""

    def observe(_: tuple[Any, ...], result: Any, __: float) -> None:
        if (task := current_task()) is not None:
            task.evaluated(result)

    return _wrapped(evaluator, "evaluate", observe)


def _wrapped(target: T, method: str, observe: Observe) -> T:
    function = getattr(target, method, None)
    if function is not None:
        return cast("T", Observed(target, method, _observed(function, observe)))
    if not callable(target):
        raise TypeError(f"{target!r} is neither a function nor has it a method {method}")
    return cast("T", _observed(target, observe))


def _observed(function: Callable[..., Any], observe: Observe) -> Callable[..., Any]:
    def take_down(args: tuple[Any, ...], result: Any, started_s: float) -> None:
        try:
            observe(args, result, max((time.perf_counter() - started_s) * 1000, 0.001))
        except Exception:
            LOGGER.warning("what %r returned cannot be logged", function, exc_info=True)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def observed_coroutine(*args: Any, **kwargs: Any) -> Any:
            started_s = time.perf_counter()
            result = await function(*args, **kwargs)
            take_down(args, result, started_s)
            return result

        return observed_coroutine

    @functools.wraps(function)
    def observed(*args: Any, **kwargs: Any) -> Any:
        started_s = time.perf_counter()
        result = function(*args, **kwargs)
        take_down(args, result, started_s)
        return result

    return observed


def _in_a_task(template: TaskLog, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; a call that is in no task yet is one."""
    alone = template(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return (alone if current_task() is None else function)(*args, **kwargs)

    return called


def _choice_fields(choice: Any) -> dict[str, Any]:
    """Of a ``Choice`` what a routing decision says."""
    from flywheel.arbiter.logs import candidates_of

    return {
        "strategy": choice.strategy,
        "confidence": min(1.0, max(0.0, choice.confidence)),
        "candidate_agents": candidates_of(choice),
        "primary_reason": choice.primary_reason,
        "secondary_factors": choice.secondary_factors,
    }


def _execution_fields(answer: Any, asked: tuple[Message, ...] = ()) -> dict[str, Any]:
    if isinstance(answer, Execution):
        return fields_of(answer)
    if isinstance(answer, str):
        return {"success": True, "messages": (*asked, Message(role="assistant", content=answer))}
    if not hasattr(answer, "failure_reason"):  # not an ``Answer``: that it came is all that is known
        return {"success": True, "messages": asked}
    answered = answer.failure_reason is None
    return {
        "success": answered,
        "failure_reason": answer.failure_reason,
        "latency_ms": answer.latency_ms,
        "tokens_used": answer.prompt_tokens + answer.output_tokens,
        "thinking_tokens": answer.thinking_tokens,
        "output_tokens": answer.output_tokens,
        "tool_call_count": 0,
        "time_to_first_action": answer.time_to_first_action_ms,
        "messages": (*answer.messages, *((Message(role="assistant", content=answer.text),) if answered else ())),
    }
