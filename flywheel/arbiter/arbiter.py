"""The arbiter: it routes tasks to agents, lets them run, evaluates their answers, logs all three, and learns."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
import numpy as np
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress, part_of
from flywheel.arbiter.evaluation.function_calls import check
from flywheel.arbiter.evaluation.rubric import evaluate
from flywheel.arbiter.logs import execution, routing_decision
from flywheel.arbiter.outcomes import Outcome, outcome_of, record_new
from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.arbiter.routing.state import BanditState, learn
from flywheel.arbiter.routing.strategy import Candidate, Choice, Evidence, RoutingStrategy
from flywheel.arbiter.routing.thompson import ThompsonSampling
from flywheel.collection.collector import Collector
from flywheel.errors import AgentError, ConfigurationError, HeldOutTaskError
from flywheel.records import RoutingDecision, Strategy
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask, Split


class _Routed(Struct, frozen=True, kw_only=True):
    task: BenchmarkTask
    decision: RoutingDecision


class Arbiter:
    """Runs rounds of tasks for one tenant and one stream of traffic."""

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
        strategy: RoutingStrategy | None = None,
    ) -> None:
        """An arbiter over the agents that are active in the registry.

        Args:
            engine: the database of registry and evidence.
            collector: where the logs go.
            tenant_id: whose tasks these are.
            label: names the stream of traffic; task ids start with it.
            make_agent: from a profile to the agent.
            clock: the time, with zone.
            rng: all chance in routing.
            strategy: Thompson sampling where none is given.
        """
        self._engine = engine
        self._collector = collector
        self._tenant_id = tenant_id
        self._label = label
        self._make_agent = make_agent
        self._clock = clock
        self._rng = rng
        self._strategy = strategy or ThompsonSampling()
        self._registry = AgentRegistry(engine)
        self._state = BanditState(engine)

    def run(self, tasks: Sequence[BenchmarkTask], *, on_progress: Progress = ignore_progress) -> list[Outcome]:
        """Run one round: all tasks are decided on the same evidence, then executed agent by agent.

        Returns:
            the outcomes of the tasks whose three logs were written. A task whose logs were dropped has none, is not
            learned from, and can be run again.

        Raises:
            HeldOutTaskError: a task is not for training; nothing was run.
            ConfigurationError: no agent is active.
        """
        for task in tasks:
            if task.split is not Split.TRAIN:
                raise HeldOutTaskError(f"{task.id} is a {task.split} task: it measures models and is never routed")
        profiles = {profile.id: profile for profile in self._registry.list(status="active")}
        by_agent: defaultdict[str, list[_Routed]] = defaultdict(list)
        for routed in self._route(tasks, list(profiles.values())):
            by_agent[routed.decision.selected_agent_id].append(routed)
        outcomes: list[Outcome] = []
        done = 0
        for agent_id, group in by_agent.items():
            progress = part_of(on_progress, before=done, total=len(tasks))
            answers = self._execute(profiles[agent_id], group, progress)
            done += len(group)
            for routed, answer in zip(group, answers, strict=True):
                outcome = self._evaluate_and_log(routed, answer, profiles[agent_id])
                outcomes += [outcome] if outcome else []
        self.settle(outcomes)
        return outcomes

    def settle(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Remember outcomes and learn from them, each task once, in one transaction; returns those that were new."""
        with self._engine.begin() as connection:
            new = record_new(connection, outcomes)
            learn(connection, new)
        return new

    def _route(self, tasks: Sequence[BenchmarkTask], active: Sequence[AgentProfile]) -> list[_Routed]:
        evidence = self._state.evidence(task.task_type for task in tasks)
        assigned: defaultdict[str, int] = defaultdict(int)
        routed = []
        for task in tasks:
            loads = {agent_id: count / len(tasks) for agent_id, count in assigned.items()}
            choice = choose_agent(task.task_type, active, evidence, loads=loads, strategy=self._strategy, rng=self._rng)
            assigned[choice.selected] += 1
            decision = routing_decision(
                task,
                choice,
                task_id=task_id_of(self._label, task),
                tenant_id=self._tenant_id,
                timestamp=self._clock(),
            )
            routed.append(_Routed(task=task, decision=decision))
        return routed

    def _execute(self, profile: AgentProfile, group: Sequence[_Routed], on_progress: Progress) -> list[Answer]:
        """The agent's answers; where it cannot answer at all, a failure for each task with the reason."""
        tasks = [routed.task for routed in group]
        started = self._clock()
        try:
            return self._make_agent(profile).answer(tasks, on_progress=on_progress)
        except AgentError as error:
            latency_ms = (self._clock() - started).total_seconds() * 1000
            return [
                failed_answer(prompt_messages(task, profile.prompt), str(error), latency_ms=latency_ms)
                for task in tasks
            ]

    def _evaluate_and_log(self, routed: _Routed, answer: Answer, profile: AgentProfile) -> Outcome | None:
        task, decision = routed.task, routed.decision
        # The gates want the three moments in order, also where somebody sets the machine's clock back meanwhile.
        executed_at = max(self._clock(), decision.timestamp)
        evaluation = evaluate(
            task,
            answer,
            task_id=decision.task_id,
            agent_id=profile.id,
            timestamp=max(self._clock(), executed_at),
            usd_per_million_tokens=profile.usd_per_million_tokens,
            tenant_id=self._tenant_id,
        )
        answered = answer.failure_reason is None
        answer_check = check(task.expected, task.tools, answer.text) if answered else None
        executed = execution(answer, answer_check, evaluation, timestamp=executed_at)
        # The evaluation is written last: whoever finds it in a segment finds the other two before it.
        written = (
            self._collector.log_routing_decision(decision)
            and self._collector.log_execution(executed)
            and self._collector.log_evaluation(evaluation)
        )
        return outcome_of(decision, executed, evaluation, label=self._label) if written else None


def task_id_of(label: str, task: BenchmarkTask) -> str:
    """The id under which a benchmark task is run in a stream of traffic: the same one on every attempt."""
    return f"{label}-{task.id}"


def choose_agent(
    task_type: str,
    active: Sequence[AgentProfile],
    evidence: dict[tuple[str, str], Evidence],
    *,
    loads: dict[str, float],
    strategy: RoutingStrategy,
    rng: np.random.Generator,
) -> Choice:
    """Choose among the active agents that have the capability; where none has it, among all, as a fallback.

    Raises:
        ConfigurationError: no agent is active.
    """
    if not active:
        raise ConfigurationError("no agent is active; add one under [[agents]] in flywheel.toml")
    capable = [profile for profile in active if profile.can_do(task_type)]
    candidates = [
        Candidate(
            profile=profile,
            evidence=evidence.get((profile.id, task_type), Evidence()),
            capability=1.0 if capable else 0.0,
            load=loads.get(profile.id, 0.0),
        )
        for profile in capable or active
    ]
    choice = strategy.choose(task_type, candidates, rng)
    if capable:
        return choice
    return msgspec.structs.replace(
        choice,
        strategy=Strategy.FALLBACK,
        primary_reason=f"none of {len(active)} active agents takes {task_type}; of all: {choice.primary_reason}",
    )
