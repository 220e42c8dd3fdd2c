"""Rounds of tasks from sources: all are decided on the same evidence, then executed agent by agent."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.agents.running import RunningAgent, limited
from flywheel.arbiter.agents.strategy import Answer, Progress, failed_answer, ignore_progress, part_of
from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS
from flywheel.arbiter.episodes import Episode, play
from flywheel.arbiter.evaluation.evaluator import Subject
from flywheel.arbiter.logs import Step, routing_decision
from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.live import Snapshot
from flywheel.arbiter.routing.state import days
from flywheel.arbiter.routing.strategy import IDLE
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.running.recording import (
    Attempt,
    cost_of,
    failure_in,
    judged,
    outcome,
    record,
    rejection,
    steps_of,
)
from flywheel.arbiter.settling import settle
from flywheel.arbiter.task import Task, refuse_held_out
from flywheel.errors import AgentError, TaskSourceError
from flywheel.records import RoutingDecision
from flywheel.settings import RoutingSettings
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask, SourceTask


class _Decided(Struct, frozen=True, kw_only=True):
    task: Task
    source: SourceTask
    decision: RoutingDecision


class Rounds:
    """Runs rounds of one stream of traffic."""

    def __init__(self, engine: Engine, parts: Parts, routing: RoutingSettings) -> None:
        self._engine = engine
        self._parts = parts
        self._routing = routing

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
            refuse_held_out(task)
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
            loads[choice.selected] = msgspec.structs.replace(before, queued=before.queued + 1)
            decision = routing_decision(task, choice, tenant_id=parts.tenant_id, timestamp=parts.clock())
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
        return play(self._limited(profile), tasks, self._parts.start_run, on_progress=on_progress)

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
        parts = self._parts
        attempt = (
            self._of_episode(one, result, profile)
            if isinstance(result, Episode)
            else self._of_answer(one, result, profile)
        )
        recorded = record(attempt, parts.collector, clock=parts.clock, rubric=parts.rubric, notary=parts.notary)
        if not recorded.written:
            return None
        return outcome(one.decision, recorded, label=parts.label, usd=attempt.spent.usd, task=one.task.routed())

    def _of_episode(self, one: _Decided, episode: Episode, profile: AgentProfile) -> Attempt:
        return Attempt(
            decision=one.decision,
            profile=profile,
            steps=steps_of(episode, profile),
            answered_at=self._parts.clock(),
            episode=episode,
        )

    def _of_answer(self, one: _Decided, answer: Answer, profile: AgentProfile) -> Attempt:
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
        return Attempt(
            decision=one.decision,
            profile=profile,
            steps=(Step(answer=answer, verdict=verdict, unjudged=unjudged, usd=usd),),
            answered_at=answered_at,
            failure=failure_in(answer) or rejection(verdict),
            over_budget=answer.output_tokens > THINKING_BUDGET_TOKENS[one.task.assessed_complexity],
        )


def task_id_of(label: str, task: SourceTask) -> str:
    """The id under which a benchmark task is run in a stream of traffic: the same one on every attempt."""
    return f"{label}-{task.id}"
