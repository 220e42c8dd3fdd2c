"""The arbiter: it routes tasks to agents, lets them run, evaluates their answers, logs all three, and learns."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress, part_of
from flywheel.arbiter.episodes import Episode, episode_evaluation, episode_execution, play
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
from flywheel.errors import AgentError, ConfigurationError, HeldOutTaskError, TaskSourceError
from flywheel.records import Evaluation, Execution, RoutingDecision
from flywheel.settings import RoutingSettings
from flywheel.tasks.environment import Run
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask, SourceTask, Split


class _Routed(Struct, frozen=True, kw_only=True):
    task: SourceTask
    decision: RoutingDecision


def no_environments(task: SourceTask) -> Run:
    """For arbiters that run function-calling tasks alone.

    Raises:
        ConfigurationError: always; the message names the task.
    """
    raise ConfigurationError(f"task {task.id} is an environment's, and this arbiter was given none")


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
        start_run: Callable[[SourceTask], Run] = no_environments,
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
            start_run: begins a run of an environment's task.
        """
        self._engine = engine
        self._collector = collector
        self._tenant_id = tenant_id
        self._label = label
        self._make_agent = make_agent
        self._clock = clock
        self._rng = rng
        self._routing = routing or RoutingSettings()
        self._start_run = start_run
        self._registry = AgentRegistry(engine)

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
            if task.split is not Split.TRAIN:
                raise HeldOutTaskError(f"{task.id} is a {task.split} task: it measures models and is never routed")
        profiles = {profile.id: profile for profile in self._registry.list(status="active")}
        by_agent: defaultdict[str, list[_Routed]] = defaultdict(list)
        for one in self._route(tasks, list(profiles.values())):
            by_agent[one.decision.selected_agent_id].append(one)
        outcomes: list[Outcome] = []
        broken: list[Episode] = []
        done = 0
        for agent_id, group in by_agent.items():
            progress = part_of(on_progress, before=done, total=len(tasks))
            results = self._execute(profiles[agent_id], group, progress)
            done += len(group)
            for one, result in zip(group, results, strict=True):
                if isinstance(result, Episode) and result.verification is None:
                    broken.append(result)
                    continue
                outcome = self._evaluate_and_log(one, result, profiles[agent_id])
                outcomes += [outcome] if outcome else []
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
            new = record_new(connection, outcomes)
            learn(connection, new, half_life_days=self._routing.half_life_days or None)
        return new

    def _route(self, tasks: Sequence[SourceTask], active: Sequence[AgentProfile]) -> list[_Routed]:
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

    def _execute(
        self, profile: AgentProfile, group: Sequence[_Routed], on_progress: Progress
    ) -> list[Answer | Episode]:
        """What the agent made of its tasks, in their order."""
        calls = [one.task for one in group if isinstance(one.task, BenchmarkTask)]
        others = [one.task for one in group if not isinstance(one.task, BenchmarkTask)]
        answers = iter(self._answers(profile, calls, on_progress) if calls else [])
        progress = part_of(on_progress, before=len(calls), total=len(group))
        episodes = iter(
            play(self._make_agent(profile), others, self._start_run, on_progress=progress) if others else []
        )
        return [next(answers) if isinstance(one.task, BenchmarkTask) else next(episodes) for one in group]

    def _answers(self, profile: AgentProfile, tasks: Sequence[BenchmarkTask], on_progress: Progress) -> list[Answer]:
        """The agent's answers; where it cannot answer at all, a failure for each task with the reason."""
        started = self._clock()
        try:
            return self._make_agent(profile).answer(tasks, on_progress=on_progress)
        except AgentError as error:
            latency_ms = (self._clock() - started).total_seconds() * 1000
            return [
                failed_answer(prompt_messages(task, profile.prompt), str(error), latency_ms=latency_ms)
                for task in tasks
            ]

    def _evaluate_and_log(self, one: _Routed, result: Answer | Episode, profile: AgentProfile) -> Outcome | None:
        decision = one.decision
        cost_usd = profile.cost_usd(input_tokens=result.prompt_tokens, output_tokens=result.output_tokens)
        executed, evaluation = self._judged(one, result, cost_usd=cost_usd)
        # The evaluation is written last: whoever finds it in a segment finds the other two before it.
        written = (
            self._collector.log_routing_decision(decision)
            and self._collector.log_execution(executed)
            and self._collector.log_evaluation(evaluation)
        )
        if not written:
            return None
        return outcome_of(decision, executed, evaluation, label=self._label, cost_usd=cost_usd)

    def _judged(self, one: _Routed, result: Answer | Episode, *, cost_usd: float) -> tuple[Execution, Evaluation]:
        decision = one.decision
        # The gates want the three moments in order, also where somebody sets the machine's clock back meanwhile.
        executed_at = max(self._clock(), decision.timestamp)
        evaluated_at = max(self._clock(), executed_at)
        if isinstance(result, Episode):
            evaluation = episode_evaluation(result, decision, timestamp=evaluated_at, cost_usd=cost_usd)
            return episode_execution(result, evaluation, timestamp=executed_at), evaluation
        assert isinstance(one.task, BenchmarkTask), "what was answered in one turn"
        evaluation = evaluate(
            one.task,
            result,
            task_id=decision.task_id,
            agent_id=decision.selected_agent_id,
            timestamp=evaluated_at,
            cost_usd=cost_usd,
            tenant_id=self._tenant_id,
        )
        answered = result.failure_reason is None
        answer_check = check(one.task.expected, one.task.tools, result.text) if answered else None
        return execution(result, answer_check, evaluation, timestamp=executed_at), evaluation


def task_id_of(label: str, task: SourceTask) -> str:
    """The id under which a benchmark task is run in a stream of traffic: the same one on every attempt."""
    return f"{label}-{task.id}"


def routed(task: SourceTask) -> RoutedTask:
    """A benchmark task as routing sees it; what ``routed_task`` makes of its logged decision is the same."""
    return RoutedTask(
        task_type=task.task_type,
        complexity=task.complexity,
        requirements=requirements_of(task),
        length=len(task.text),
    )
