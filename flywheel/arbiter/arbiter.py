"""The arbiter: it routes tasks to agents, lets them run, evaluates their answers, logs all three, and learns."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress, part_of
from flywheel.arbiter.evaluation.function_calls import check
from flywheel.arbiter.evaluation.rubric import evaluate
from flywheel.arbiter.logs import execution, requirements_of, routing_decision
from flywheel.arbiter.outcomes import Outcome, outcome_of, record_new
from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.arbiter.routing.build import router_from
from flywheel.arbiter.routing.state import days, learn
from flywheel.arbiter.routing.strategy import IDLE, Load
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.collection.collector import Collector
from flywheel.errors import AgentError, HeldOutTaskError
from flywheel.records import RoutingDecision
from flywheel.settings import RoutingSettings
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
        routing: RoutingSettings | None = None,
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
            routing: strategy, objective, decay and priors; Thompson sampling for quality alone where None.
        """
        self._engine = engine
        self._collector = collector
        self._tenant_id = tenant_id
        self._label = label
        self._make_agent = make_agent
        self._clock = clock
        self._rng = rng
        self._routing = routing or RoutingSettings()
        self._registry = AgentRegistry(engine)

    def run(self, tasks: Sequence[BenchmarkTask], *, on_progress: Progress = ignore_progress) -> list[Outcome]:
        """Run one round: all tasks are decided on the same evidence, then executed agent by agent.

        Returns:
            the outcomes of the tasks whose three logs were written. A task whose logs were dropped has none, is not
            learned from, and can be run again.

        Raises:
            HeldOutTaskError: a task is not for training; nothing was run.
            ConfigurationError: no agent is active.
            NoAgentError: the hard limits leave no agent for a task; nothing was run.
        """
        for task in tasks:
            if task.split is not Split.TRAIN:
                raise HeldOutTaskError(f"{task.id} is a {task.split} task: it measures models and is never routed")
        profiles = {profile.id: profile for profile in self._registry.list(status="active")}
        by_agent: defaultdict[str, list[_Routed]] = defaultdict(list)
        for one in self._route(tasks, list(profiles.values())):
            by_agent[one.decision.selected_agent_id].append(one)
        outcomes: list[Outcome] = []
        done = 0
        for agent_id, group in by_agent.items():
            progress = part_of(on_progress, before=done, total=len(tasks))
            answers = self._execute(profiles[agent_id], group, progress)
            done += len(group)
            for one, answer in zip(group, answers, strict=True):
                outcome = self._evaluate_and_log(one, answer, profiles[agent_id])
                outcomes += [outcome] if outcome else []
        self.settle(outcomes)
        return outcomes

    def settle(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Remember outcomes and learn from them, each task once, in one transaction; returns those that were new."""
        with self._engine.begin() as connection:
            new = record_new(connection, outcomes)
            learn(connection, new, half_life_days=self._routing.half_life_days or None)
        return new

    def _route(self, tasks: Sequence[BenchmarkTask], active: Sequence[AgentProfile]) -> list[_Routed]:
        router = router_from(self._engine, active, self._routing)
        # A round's tasks are all decided before the first one is begun: they wait.
        loads: dict[str, Load] = {}
        decided = []
        for task in tasks:
            choice = router.decide(routed(task), self._rng, loads=loads, now=days(self._clock()))
            loads[choice.selected] = Load(queued=loads.get(choice.selected, IDLE).queued + 1)
            decision = routing_decision(
                task,
                choice,
                task_id=task_id_of(self._label, task),
                tenant_id=self._tenant_id,
                timestamp=self._clock(),
            )
            decided.append(_Routed(task=task, decision=decision))
        return decided

    def _execute(self, profile: AgentProfile, group: Sequence[_Routed], on_progress: Progress) -> list[Answer]:
        """The agent's answers; where it cannot answer at all, a failure for each task with the reason."""
        tasks = [one.task for one in group]
        started = self._clock()
        try:
            return self._make_agent(profile).answer(tasks, on_progress=on_progress)
        except AgentError as error:
            latency_ms = (self._clock() - started).total_seconds() * 1000
            return [
                failed_answer(prompt_messages(task, profile.prompt), str(error), latency_ms=latency_ms)
                for task in tasks
            ]

    def _evaluate_and_log(self, one: _Routed, answer: Answer, profile: AgentProfile) -> Outcome | None:
        task, decision = one.task, one.decision
        # The gates want the three moments in order, also where somebody sets the machine's clock back meanwhile.
        executed_at = max(self._clock(), decision.timestamp)
        cost_usd = profile.cost_usd(input_tokens=answer.prompt_tokens, output_tokens=answer.output_tokens)
        evaluation = evaluate(
            task,
            answer,
            task_id=decision.task_id,
            agent_id=profile.id,
            timestamp=max(self._clock(), executed_at),
            cost_usd=cost_usd,
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
        if not written:
            return None
        return outcome_of(decision, executed, evaluation, label=self._label, cost_usd=cost_usd)


def task_id_of(label: str, task: BenchmarkTask) -> str:
    """The id under which a benchmark task is run in a stream of traffic: the same one on every attempt."""
    return f"{label}-{task.id}"


def routed(task: BenchmarkTask) -> RoutedTask:
    """A benchmark task as routing sees it; what ``routed_task`` makes of its logged decision is the same."""
    return RoutedTask(
        task_type=task.task_type,
        complexity=task.complexity,
        requirements=requirements_of(task),
        length=len(task.text),
    )
