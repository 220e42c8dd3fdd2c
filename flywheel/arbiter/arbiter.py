"""The arbiter: it routes tasks to agents, lets them run, evaluates their answers, logs all three, and learns.

A source's tasks are run in rounds (``rounds``), a service's one by one (``execute_task``). Both decide by one router,
record attempts in one way (``flywheel.arbiter.running.recording``) and settle outcomes in one (``settling``).
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

import msgspec
import numpy as np
from sqlalchemy import Engine

from flywheel.arbiter.agents.build import AgentFactory
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Agent, Progress, ignore_progress
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.budgets import CoolDown
from flywheel.arbiter.cache.semantic_cache import SemanticCache
from flywheel.arbiter.evaluation.evaluator import Evaluator
from flywheel.arbiter.evaluation.function_call_evaluator import FunctionCallEvaluator
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.rounds import Rounds
from flywheel.arbiter.routing.live import LiveRouter
from flywheel.arbiter.running.calls import CANCELLED, CancelToken
from flywheel.arbiter.running.claims import Claims, Known
from flywheel.arbiter.running.deciding import decide
from flywheel.arbiter.running.executor import Executor, digest_of
from flywheel.arbiter.running.late import LateWord, Reported
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.running.reports import Report
from flywheel.arbiter.running.streaming import UNWATCHED, Watch
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.task import Task, TaskResult, refuse_held_out
from flywheel.collection.collector import Collector
from flywheel.errors import ConfigurationError
from flywheel.records import Evaluation, RoutingDecision
from flywheel.settings import RoutingSettings
from flywheel.tasks.environment import Run
from flywheel.tasks.source import SourceTask

FUNCTION_CALLS = FunctionCallEvaluator()


def no_environments(task: SourceTask) -> Run:
    """For arbiters that run function-calling tasks alone.

    Raises:
        ConfigurationError: always; the message names the task.
    """
    raise ConfigurationError(f"task {task.id} is an environment's, and this arbiter was given none")


class Arbiter:
    """Runs tasks of one tenant and one stream of traffic. ``execute_task`` is safe for threads."""

    def __init__(
        self,
        engine: Engine,
        collector: Collector,
        *,
        tenant_id: str,
        label: str,
        make_agent: Callable[[AgentProfile], Agent],
        clock: Callable[[], datetime],
        rng: np.random.Generator,
        routing: RoutingSettings | None = None,
        start_run: Callable[[SourceTask], Run] = no_environments,
        execution: ExecutionSettings | None = None,
        evaluator: Evaluator | None = FUNCTION_CALLS,
        rubric: Rubric = BUILTIN,
        slots: Slots | None = None,
        cache: SemanticCache | None = None,
        notary: Notary | None = None,
    ) -> None:
        """An arbiter over the agents that are active in the registry.

        Args:
            engine: the database of registry and evidence.
            collector: where the logs go; of the same tenant.
            tenant_id: whose tasks these are.
            label: names the stream of traffic; the ids of rounds' tasks start with it.
            make_agent: from a profile to the agent.
            clock: the time, with zone.
            rng: all chance in routing.
            routing: strategy, objective, decay and priors; Thompson sampling for quality alone where None.
            start_run: begins a run of an environment's task.
            execution: how single tasks are run.
            evaluator: judges answers; None: nobody does, and logs say so. Function calls of benchmarks by default.
            rubric: scores what environments verified; an evaluator has its own.
            slots: count and limit the agents' calls, and say what other processes do where they share that; where None
                those of ``make_agent`` if it is an ``AgentFactory``, else the arbiter's own.
            cache: of answers to single tasks; where None one that ``execution.cache`` describes, if it is enabled.
            notary: signs what is logged of evaluations, for the audit trail; None: they have no verdict. Its owner
                closes it.
        """
        self._engine = engine
        self._routing = routing or RoutingSettings()
        settings = execution or ExecutionSettings()
        self._parts = Parts(
            router=LiveRouter(engine, self._routing, rng, refresh_s=settings.refresh_s),
            collector=collector,
            evaluator=evaluator,
            make_agent=make_agent,
            slots=slots or (make_agent.slots if isinstance(make_agent, AgentFactory) else Slots()),
            settings=settings,
            cool_down=CoolDown(settings.cool_down_s, monotonic=time.monotonic),
            clock=clock,
            tenant_id=tenant_id,
            label=label,
            start_run=start_run,
            rubric=rubric,
            notary=notary,
        )
        self._claims = Claims(engine, claim_s=settings.claim_s, kept=timedelta(hours=settings.kept_hours))
        if cache is None and settings.cache.enabled:
            cache = SemanticCache(settings.cache)
        self._cache = cache
        self._executor, self._late = self._made_executor(), self._made_late()

    def for_tenant(self, tenant_id: str, collector: Collector) -> Self:
        """An arbiter for another tenant that shares all else with this one: router, slots, claims, cache."""
        other = copy.copy(self)
        other._parts = msgspec.structs.replace(self._parts, tenant_id=tenant_id, collector=collector)
        other._executor, other._late = other._made_executor(), other._made_late()
        return other

    def close(self) -> None:
        """End what the arbiter and those it shares with do in the background. Call it when no task runs any more."""
        self._claims.close()

    # --- single tasks -----------------------------------------------------------------------------------------------

    def execute_task(self, task: Task, *, token: CancelToken | None = None, watch: Watch = UNWATCHED) -> TaskResult:
        """Route a task, let the agent do it, refine, evaluate, log, learn. Why it failed, if so, is in the result.

        A task runs once under its id: a second call, in whichever process, gets the first one's result.

        Args:
            task: what to do.
            token: cancels it; the result says so.
            watch: how the caller follows it while it runs.

        Raises:
            ConfigurationError: the task is another tenant's.
            HeldOutTaskError: it is a benchmark's, and not for training.
            TaskSourceError: its environment broke; nothing is logged, and the id is free.
            ReusedTaskIdError: another task has its id.
            RetryLaterError: another caller's run of it did not end within this one's time.
            TaskCancelledError: it was cancelled while another caller's run of it was waited for.
            DatabaseError: PostgreSQL cannot be used; nothing was run, or nothing that succeeded.
        """
        refuse_held_out(task.given)
        return self._executor.execute(task, token=token or CancelToken(), watch=watch)

    async def aexecute_task(
        self, task: Task, *, token: CancelToken | None = None, watch: Watch = UNWATCHED
    ) -> TaskResult:
        """The same for coroutines. Where the coroutine is cancelled the task is cancelled, and accounted for, first.

        What it calls is called in the event loop.
        """
        refuse_held_out(task.given)
        return await self._executor.aexecute(task, token=token or CancelToken(), watch=watch)

    def record_evaluation(self, task_id: str, evaluation: Evaluation) -> TaskResult:
        """Take an evaluation of an answer that had none: it is logged, learned from, and in the result from then on.

        Raises:
            NotJudgeableError: there is no such result any more, or no answer in it.
            DatabaseError: PostgreSQL cannot be used.
        """
        return self._late.record_evaluation(task_id, evaluation)

    def record_report(self, report: Report) -> Reported:
        """Take what the caller says of a task: how it did one that it had routed, and what an answer is worth.

        Each part is logged and learned from once; again it changes nothing.

        Raises:
            UnknownTaskError: nothing is known of the task.
            NotJudgeableError: it has not ended, or has no answer.
            ConflictingReportError: something else was said before, or the arbiter did the task itself.
            DatabaseError: PostgreSQL cannot be used.
        """
        return self._late.record(report)

    def known(self, task_id: str) -> Known | None:
        """What is known of a task of this tenant; None where nothing is.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._engine.connect() as connection:
            return self._claims.known(connection, self._parts.tenant_id, task_id)

    def cancel(self, task_id: str, reason: str = CANCELLED) -> None:
        """Ask for a task to be cancelled, whichever process runs it. One that does not run stays as it is.

        Another process hears of it within a quarter of ``execution.claim_s``.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        self._claims.cancel(self._parts.tenant_id, task_id, reason)

    def check_agents(self) -> None:
        """See that there is an agent, for callers who had rather not run a task than have it fail for that.

        Raises:
            ConfigurationError: no agent is active.
            DatabaseError: PostgreSQL cannot be used.
        """
        self._parts.router.check()

    def active_agents(self) -> Mapping[str, AgentProfile]:
        """The agents that tasks can be given to, by id.

        Raises:
            ConfigurationError: no agent is active.
            DatabaseError: PostgreSQL cannot be used.
        """
        return self._parts.router.profiles()

    def route(self, task: Task) -> RoutingDecision:
        """Whom the task would be given at this moment. Nothing is run or logged.

        Raises:
            ConfigurationError: no agent is active.
            NoAgentError: the hard limits leave nobody.
        """
        refuse_held_out(task.given)
        decision, _ = decide(task, task.routed(), self._parts)
        return decision

    def route_for_caller(self, task: Task) -> tuple[RoutingDecision, bool]:
        """Whom the caller is to give the task, who does it itself and reports with ``record_report``.

        The decision is logged and kept; asked again under the id, it is the same one. The second value says whether it
        was there before.

        Raises:
            ReusedTaskIdError: another task has its id.
            TakenTaskError: the task was given to the arbiter to run.
            ConfigurationError, NoAgentError, HeldOutTaskError, DatabaseError: as ``route``.
        """
        decision = self.route(task)
        with self._engine.begin() as connection:
            before = self._claims.keep_routed(connection, digest_of(task), decision)
            if before is None:
                self._parts.collector.log_routing_decision(decision)
        return before or decision, before is not None

    # --- rounds of a benchmark --------------------------------------------------------------------------------------

    def run(self, tasks: Sequence[SourceTask], *, on_progress: Progress = ignore_progress) -> list[Outcome]:
        """Run one round; see ``Rounds.run``."""
        return self._rounds().run(tasks, on_progress=on_progress)

    def settle(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Remember outcomes and learn from them, each task once, in one transaction; returns those that were new."""
        return self._rounds().settle(outcomes)

    def _rounds(self) -> Rounds:
        return Rounds(self._engine, self._parts, self._routing)

    def _made_executor(self) -> Executor:
        return Executor(self._engine, self._parts, self._claims, self._routing, self._cache)

    def _made_late(self) -> LateWord:
        parts = self._parts
        return LateWord(
            engine=self._engine,
            claims=self._claims,
            collector=parts.collector,
            tenant_id=parts.tenant_id,
            label=parts.label,
            routing=self._routing,
            clock=parts.clock,
            notary=parts.notary,
        )
