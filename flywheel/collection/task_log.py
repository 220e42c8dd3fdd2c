"""A whole task as a context manager or decorator: routing at its start, execution and evaluation at its end."""

import functools
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar, Token
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import msgspec

from flywheel.records import Complexity, Evaluation, Execution, Log, RoutingDecision, Strategy

if TYPE_CHECKING:
    from flywheel.collection.collector import Collector

P = ParamSpec("P")
R = TypeVar("R")
LOGGER = logging.getLogger("flywheel.collection")
REASON_LENGTH = 2_000  # characters of an exception's text
_CURRENT: "ContextVar[TaskLog | None]" = ContextVar("flywheel_task", default=None)


def current_task() -> "TaskLog | None":
    """The task that this code works on; None outside of one. Coroutines inherit it, threads do not."""
    return _CURRENT.get()


class TaskLog:
    """One task. What the agent raises is logged as a failed execution and raised on; nothing of ours is raised.

    As a decorator every call is a task of its own::

        @collector.task(task_type="research", agent_id="researcher", evaluate=judge)
        async def answer(question: str) -> str: ...

    Args:
        collector: where the logs go.
        task_type: of the registry of task types.
        agent_id: who does it, where there is no choice; else say it with ``routed``.
        task_id: a new one where none is given. For a decorator a function of the call's arguments.
        complexity: of the task.
        description: what is asked.
        requirements: what the agent must be able to do.
        source: the benchmark task this is an instance of.
        user_id: who asked; removed by anonymizing.
        evaluate: for a decorator: makes of the result an ``Evaluation`` or a mapping of its fields, or None for none.
    """

    def __init__(
        self,
        collector: "Collector",
        *,
        task_type: str,
        agent_id: str | None = None,
        task_id: str | Callable[..., str] | None = None,
        complexity: Complexity = Complexity.STANDARD,
        description: str = "",
        requirements: tuple[str, ...] = (),
        source: str | None = None,
        user_id: str | None = None,
        evaluate: Callable[[Any], Any] | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "task_type": task_type,
            "agent_id": agent_id,
            "complexity": complexity,
            "description": description,
            "requirements": requirements,
            "source": source,
            "user_id": user_id,
        }
        self._collector = collector
        self._task_id = task_id
        self._evaluate = evaluate
        self.id = task_id if isinstance(task_id, str) else str(uuid.uuid4())
        self.agent_id = agent_id
        self._routing: dict[str, Any] | None = None
        self._execution: dict[str, Any] = {}
        self._evaluation: Mapping[str, Any] | None = None
        self._error: BaseException | None = None
        self._last_at: datetime | None = None
        self._started_s = 0.0
        self._latency_ms: float | None = None
        self._token: Token[TaskLog | None] | None = None

    # --- what the task's own code says ------------------------------------------------------------------------------

    def routed(self, agent_id: str, **fields: Any) -> None:
        """Say who does it; ``fields`` are those of ``RoutingDecision``. The time of the execution begins here."""
        self.agent_id = agent_id
        self._routing = {"timestamp": self._now(), **fields}
        self._started_s = time.perf_counter()

    def executed(self, **fields: Any) -> None:
        """Say how it went: fields of ``Execution``, in one call or several. ``latency_ms`` is measured if not given."""
        self._execution.update(fields)

    def evaluated(self, evaluation: "Evaluation | Mapping[str, Any] | None" = None, **fields: Any) -> None:
        """Say what it was worth: an ``Evaluation``, whose ids and time become this task's, or its fields."""
        self._evaluation = {**fields_of(evaluation), **fields}

    # --- context manager --------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for make in self._finish(error):
            self._collector.log_made(make)

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for make in self._finish(error):
            await self._collector.log_made_async(make)

    # --- decorator --------------------------------------------------------------------------------------------------

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, each call of which is a task."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def observed_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                async with self._of_call(args, kwargs) as task:
                    result = await function(*args, **kwargs)
                    evaluation = task._judged(result)
                    if inspect.isawaitable(evaluation):
                        evaluation = await task._judged_later(evaluation)
                    task._take(evaluation)
                    return result

            return observed_coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def observed(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._of_call(args, kwargs) as task:
                result = function(*args, **kwargs)
                task._take(task._judged(result))
                return result

        return observed

    def _of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "TaskLog":
        task_id = self._task_id
        if callable(task_id):
            try:
                task_id = str(task_id(*args, **kwargs))
            except Exception:
                LOGGER.warning("the function for task ids failed; the task gets a new id", exc_info=True)
                task_id = None
        return TaskLog(self._collector, task_id=task_id, evaluate=self._evaluate, **self._options)

    def _judged(self, result: Any) -> Any:
        """What the evaluator says. Its failure is not the agent's: the task has no evaluation then."""
        self._stop_clock()
        try:
            return None if self._evaluate is None else self._evaluate(result)
        except Exception:
            LOGGER.warning("the evaluator of task %s failed; it has no evaluation", self.id, exc_info=True)
            return None

    async def _judged_later(self, evaluation: Awaitable[Any]) -> Any:
        try:
            return await evaluation
        except Exception:
            LOGGER.warning("the evaluator of task %s failed; it has no evaluation", self.id, exc_info=True)
            return None

    def _take(self, evaluation: Any) -> None:
        if evaluation is not None:
            self.evaluated(evaluation)

    # --- records ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._token = _CURRENT.set(self)
        self._started_s = time.perf_counter()
        if self.agent_id is not None:
            self.routed(
                self.agent_id,
                strategy=Strategy.FALLBACK,
                confidence=1.0,
                candidate_agents=(),
                primary_reason="one agent: there was no choice",
            )

    def _stop_clock(self) -> None:
        if self._latency_ms is None:
            self._latency_ms = max((time.perf_counter() - self._started_s) * 1000, 0.001)

    def _finish(self, error: BaseException | None) -> "list[Callable[[], Log]]":
        """What makes the task's logs, in their order; called by the collector, which counts what cannot be made."""
        self._stop_clock()
        if self._token is not None:
            try:
                _CURRENT.reset(self._token)
            except ValueError:  # it ends in another context than it began in, as generators may
                _CURRENT.set(None)
            self._token = None
        self._error = error
        made: list[Callable[[], Log]] = [self._decision, self._executed]
        return [*made, self._evaluated] if self._evaluation is not None else made

    def _decision(self) -> RoutingDecision:
        options = {name: value for name, value in self._options.items() if name != "agent_id"}
        fields = {**options, "tenant_id": "", **(self._routing or {})}
        return RoutingDecision(**{**fields, "task_id": self.id, "selected_agent_id": self._agent()})

    def _executed(self) -> Execution:
        fields = {"success": True, "latency_ms": self._latency_ms, "tokens_used": 0, "tool_call_count": 0}
        failure: dict[str, Any] = {}
        if self._error is not None:
            reason = f"{type(self._error).__name__}: {self._error}"[:REASON_LENGTH]
            failure = {"success": False, "failure_reason": reason}
        return Execution(**{**fields, **self._execution, **failure, **self._ids()})

    def _evaluated(self) -> Evaluation:
        return Evaluation(**{**(self._evaluation or {}), **self._ids()})

    def _ids(self) -> dict[str, Any]:
        return {"task_id": self.id, "agent_id": self._agent(), "timestamp": self._now()}

    def _agent(self) -> str:
        if self.agent_id is None:
            raise ValueError(f"nobody said who does task {self.id}: give it an agent_id, or call routed")
        return self.agent_id

    def _now(self) -> datetime:
        """The gates want a task's moments in order, also where somebody sets the machine's clock back meanwhile."""
        now = self._collector.clock()
        self._last_at = now if self._last_at is None else max(now, self._last_at)
        return self._last_at


def fields_of(record: Any) -> dict[str, Any]:
    """A record or mapping as the fields that it gives. What is neither has none."""
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.asdict(record)
    return dict(record) if isinstance(record, Mapping) else {}
