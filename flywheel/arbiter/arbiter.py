"""The arbiter: it routes tasks to agents, lets them run, evaluates their answers, logs all three, and learns.

A benchmark's tasks are run in rounds (``run``), a service's one by one (``execute_task``). Both decide by one router,
record attempts in one way (``flywheel.arbiter.running.recording``) and settle outcomes in one (``settling``).
"""

import copy
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

import msgspec
import numpy as np
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.agents.build import AgentFactory
from flywheel.arbiter.agents.running import RunningAgent, limited
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress, part_of
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS, CoolDown
from flywheel.arbiter.cache.semantic_cache import SemanticCache
from flywheel.arbiter.episodes import Episode, play
from flywheel.arbiter.evaluation.evaluator import Evaluator, Subject
from flywheel.arbiter.evaluation.function_call_evaluator import FunctionCallEvaluator
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.logs import Step, routing_decision
from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.live import LiveRouter, Snapshot
from flywheel.arbiter.routing.state import days
from flywheel.arbiter.routing.strategy import IDLE, Load
from flywheel.arbiter.running.calls import CANCELLED, CancelToken
from flywheel.arbiter.running.claims import Claims, Known
from flywheel.arbiter.running.deciding import decide
from flywheel.arbiter.running.executor import Executor, digest_of
from flywheel.arbiter.running.late import LateWord, Reported
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.running.recording import Attempt, cost_of, judged, outcome, record, record_episode, rejection
from flywheel.arbiter.running.reports import Report
from flywheel.arbiter.running.streaming import OnDecision, OnText, Watch
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.settling import settle
from flywheel.arbiter.task import Failure, Task, TaskResult
from flywheel.collection.collector import Collector
from flywheel.errors import AgentError, ConfigurationError, HeldOutTaskError, TaskSourceError
from flywheel.records import Evaluation, RoutingDecision
from flywheel.settings import RoutingSettings
from flywheel.tasks.environment import Run
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask, SourceTask, Split

FUNCTION_CALLS = FunctionCallEvaluator()


class _Decided(Struct, frozen=True, kw_only=True):
    task: Task
    source: SourceTask
    decision: RoutingDecision


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
            slots: count and limit the agents' calls, and say what other processes do where they share that; those of
                ``make_agent`` where it is an ``AgentFactory``, else the arbiter's own where None.
            cache: of answers to single tasks; one that ``execution.cache`` describes where None.
            notary: signs what is logged of evaluations, for the audit trail; None: they have no verdict. Its owner
                closes it.
        """
        self._engine = engine
        self._routing = routing or RoutingSettings()
        self._start_run = start_run
        self._rubric = rubric
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
            notary=notary,
        )
        self._claims = Claims(engine, claim_s=settings.claim_s, kept=timedelta(hours=settings.kept_hours))
        self._cache = cache or (SemanticCache(settings.cache) if settings.cache.enabled else None)
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

    def execute_task(
        self,
        task: Task,
        *,
        token: CancelToken | None = None,
        on_text: OnText | None = None,
        on_decision: OnDecision | None = None,
        on_accepted: Callable[[], object] | None = None,
        irrevocable: bool = False,
    ) -> TaskResult:
        """Route a task, let the agent do it, refine, evaluate, log, learn. Why it failed, if so, is in the result.

        A task runs once under its id: a second call, in whichever process, gets the first one's result.

        Args:
            task: what to do.
            token: cancels it; the result says so.
            on_text: gets the text of answers on its way.
            on_decision: gets whom the task is given to, before that agent is asked.
            on_accepted: is called when the id is this task's, before anything is done; see ``Watch``.
            irrevocable: whether what ``on_text`` got cannot be taken back: after the first piece no other answer is
                begun, neither by that agent nor by another.

        Raises:
            ConfigurationError: the task is another tenant's.
            HeldOutTaskError: it is a benchmark's, and not for training.
            ReusedTaskIdError: another task has its id.
            RetryLaterError: another caller's run of it did not end within this one's time.
            TaskCancelledError: it was cancelled while another caller's run of it was waited for.
            DatabaseError: PostgreSQL cannot be used; nothing was run, or nothing that succeeded.
        """
        _refuse_held_out(task.benchmark)
        watch = Watch(on_text=on_text, on_decision=on_decision, on_accepted=on_accepted, irrevocable=irrevocable)
        return self._executor.execute(task, token=token or CancelToken(), watch=watch)

    async def aexecute_task(
        self,
        task: Task,
        *,
        token: CancelToken | None = None,
        on_text: OnText | None = None,
        on_decision: OnDecision | None = None,
        on_accepted: Callable[[], object] | None = None,
        irrevocable: bool = False,
    ) -> TaskResult:
        """The same for coroutines. Where the coroutine is cancelled the task is cancelled, and accounted for, first.

        What it calls is called in the event loop.
        """
        _refuse_held_out(task.benchmark)
        watch = Watch(on_text=on_text, on_decision=on_decision, on_accepted=on_accepted, irrevocable=irrevocable)
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
        _refuse_held_out(task.benchmark)
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
        """Run one round: all tasks are decided on the same evidence, then executed agent by agent.

        Returns:
            the outcomes of the tasks whose three logs were written. A task whose logs were dropped has none, is not
            learned from, and can be run again.

        Raises:
            HeldOutTaskError: a task is not for training; nothing was run.
            ConfigurationError: no agent is active.
            NoAgentError: the hard limits leave no agent for a task; nothing was run.
            TaskSourceError: environments of some tasks broke. The other tasks were run, logged and learned from.
        """
        for task in tasks:
            _refuse_held_out(task)
        snapshot = self._parts.router.read()
        by_agent: defaultdict[str, list[_Decided]] = defaultdict(list)
        for one in self._decide(tasks, snapshot):
            by_agent[one.decision.selected_agent_id].append(one)
        outcomes: list[Outcome] = []
        broken: list[Episode] = []
        done = 0
        for agent_id, group in by_agent.items():
            progress = part_of(on_progress, before=done, total=len(tasks))
            results = self._execute(snapshot.profiles[agent_id], group, progress)
            done += len(group)
            for one, result in zip(group, results, strict=True):
                if isinstance(result, Episode) and result.verification is None:
                    broken.append(result)
                    continue
                found = self._record(one, result, snapshot.profiles[agent_id])
                outcomes += [found] if found else []
        self.settle(outcomes)
        if broken:
            raise TaskSourceError(
                f"{len(broken)} tasks could not be run or verified by their environment, and were not logged; "
                f"the first is {broken[0].task.id}: {broken[0].broken}"
            )
        return outcomes

    def settle(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Remember outcomes and learn from them, each task once, in one transaction; returns those that were new."""
        with self._engine.begin() as connection:
            return settle(connection, outcomes, self._routing)

    def _decide(self, tasks: Sequence[SourceTask], snapshot: Snapshot) -> list[_Decided]:
        parts = self._parts
        # A round's tasks are all decided before the first one is begun: they wait.
        loads = dict(parts.slots.all_loads())
        decided = []
        for source in tasks:
            task = Task.of_source(source, id=task_id_of(parts.label, source))
            choice = parts.router.draw(snapshot, task.routed(), loads=loads, now=days(parts.clock()))
            before = loads.get(choice.selected, IDLE)
            loads[choice.selected] = Load(active=before.active, queued=before.queued + 1)
            decision = routing_decision(
                task, choice, task_id=task.id, tenant_id=parts.tenant_id, timestamp=parts.clock()
            )
            decided.append(_Decided(task=task, source=source, decision=decision))
        return decided

    def _execute(
        self, profile: AgentProfile, group: Sequence[_Decided], on_progress: Progress
    ) -> list[Answer | Episode]:
        """What the agent made of its tasks, in their order."""
        calls = [one.source for one in group if isinstance(one.source, BenchmarkTask)]
        others = [one.source for one in group if not isinstance(one.source, BenchmarkTask)]
        answers = iter(self._answers(profile, calls, on_progress) if calls else [])
        progress = part_of(on_progress, before=len(calls), total=len(group))
        episodes = iter(self._episodes(profile, others, progress) if others else [])
        return [next(answers) if isinstance(one.source, BenchmarkTask) else next(episodes) for one in group]

    def _episodes(self, profile: AgentProfile, tasks: Sequence[SourceTask], on_progress: Progress) -> list[Episode]:
        return play(self._limited(profile), tasks, self._start_run, on_progress=on_progress)

    def _limited(self, profile: AgentProfile) -> RunningAgent:
        return limited(self._parts.make_agent(profile), profile, self._parts.slots)

    def _answers(self, profile: AgentProfile, tasks: Sequence[BenchmarkTask], on_progress: Progress) -> list[Answer]:
        """The agent's answers; where it cannot answer at all, a failure for each task with the reason."""
        started = self._parts.clock()
        try:
            return self._limited(profile).answer(tasks, on_progress=on_progress)
        except AgentError as error:
            latency_ms = (self._parts.clock() - started).total_seconds() * 1000
            return [
                failed_answer(prompt_messages(task, profile.prompt), str(error), latency_ms=latency_ms)
                for task in tasks
            ]

    def _record(self, one: _Decided, result: Answer | Episode, profile: AgentProfile) -> Outcome | None:
        return (
            self._record_episode(one, result, profile)
            if isinstance(result, Episode)
            else self._record_answer(one, result, profile)
        )

    def _record_episode(self, one: _Decided, episode: Episode, profile: AgentProfile) -> Outcome | None:
        parts = self._parts
        usd = profile.cost_usd(input_tokens=episode.prompt_tokens, output_tokens=episode.output_tokens)
        recorded = record_episode(
            episode,
            one.decision,
            parts.collector,
            clock=parts.clock,
            cost_usd=usd,
            rubric=self._rubric,
            notary=parts.notary,
        )
        if not recorded.written:
            return None
        return outcome(one.decision, recorded, label=parts.label, usd=usd, task=one.task.routed())

    def _record_answer(self, one: _Decided, answer: Answer, profile: AgentProfile) -> Outcome | None:
        parts, usd = self._parts, cost_of(profile, answer)
        answered_at = parts.clock()
        subject = Subject(
            task=one.source,
            answer=answer,
            task_id=one.task.id,
            tenant_id=parts.tenant_id,
            agent_id=profile.id,
            at=answered_at,
            cost_usd=usd,
        )
        verdict, unjudged = judged(parts.evaluator, subject)
        reason = answer.failure_reason
        attempt = Attempt(
            decision=one.decision,
            profile=profile,
            steps=(Step(answer=answer, verdict=verdict, unjudged=unjudged, usd=usd),),
            answered_at=answered_at,
            failure=Failure(kind="agent-error", reason=reason) if reason is not None else rejection(verdict),
            over_budget=answer.output_tokens > THINKING_BUDGET_TOKENS[one.task.assessed_complexity],
        )
        recorded = record(attempt, parts.collector, clock=parts.clock, notary=parts.notary)
        if not recorded.written:
            return None
        return outcome(one.decision, recorded, label=parts.label, usd=attempt.spent.usd, task=one.task.routed())

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


def task_id_of(label: str, task: SourceTask) -> str:
    """The id under which a benchmark task is run in a stream of traffic: the same one on every attempt."""
    return f"{label}-{task.id}"


def _refuse_held_out(task: SourceTask | None) -> None:
    if task is not None and task.split is not Split.TRAIN:
        raise HeldOutTaskError(f"{task.id} is a {task.split} task: it measures models and is never routed")
