"""A service with an arbiter of its own: agents that do what a test says, and an evaluator that reads scores."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, ignore_progress
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.evaluation.evaluator import Evaluator, Subject, Verdict
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.task import Task
from flywheel.collection.collector import Collector, utc_now
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.errors import AgentError
from flywheel.records import Evaluation, Execution, QualityGate, RoutingDecision, RubricScores, decode_log
from flywheel.tasks.source import AgentTask

ACCEPTED = 0.5
Reply = str | BaseException | float | threading.Event | threading.Barrier
"""A text, an error to raise, or what to wait for (seconds of sleep, others) before an answer of quality 1."""
PATIENCE_S = 60.0


def task(number: int | str = 1) -> Task:
    return Task.asking(f"How high is mountain {number}?", id=f"t{number}", type="research")


def replaced(number: int | str, **fields: Any) -> Task:
    return msgspec.structs.replace(task(number), **fields)


class ScriptedAgent:
    """Gives its replies one after the other, the last one for ever. Ten tokens are read, and ``tokens`` written."""

    def __init__(self, *replies: Reply, tokens: int = 100) -> None:
        self.replies = replies or ("1.0 done",)
        self.tokens = tokens
        self.asked: list[AgentTask] = []
        self._lock = threading.Lock()

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        with self._lock:
            reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
            self.asked += tasks
        started = time.perf_counter()
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, float):
            time.sleep(reply)
            reply = "1.0 late"
        if isinstance(reply, threading.Event | threading.Barrier):
            reply.wait(PATIENCE_S)
            reply = "1.0 late"
        [asked] = tasks
        latency_ms = max((time.perf_counter() - started) * 1000, 0.001)
        return [
            Answer(
                text=reply, messages=asked.question, prompt_tokens=10, output_tokens=self.tokens, latency_ms=latency_ms
            )
        ]


def broken(reason: str = "its model is gone") -> ScriptedAgent:
    return ScriptedAgent(AgentError(reason))


class ScoreReader:
    """Takes the number that an answer begins with for its quality; what has none it cannot judge."""

    def __init__(self, *, feedback: str | None = "Try harder.", confidence: float = 1.0) -> None:
        self.feedback, self.confidence = feedback, confidence
        self.subjects: list[Subject] = []

    def evaluate(self, subject: Subject) -> Verdict | None:
        self.subjects.append(subject)
        try:
            quality = float(subject.answer.text.split()[0])
        except (ValueError, IndexError):
            return None
        passed = quality >= ACCEPTED
        gate = QualityGate(name="good", passed=passed, score=quality, threshold=ACCEPTED, mandatory=True)
        evaluation = Evaluation(
            task_id="whatever the evaluator calls it",
            agent_id="the same",
            timestamp=subject.at,
            quality_gates=(gate,),
            rubric_scores=RubricScores(format=1, tool=1, task=quality, minimal=1, cost=1, safety=1),
            overall_score=quality,
            caws_compliant=passed,
            budget_compliant=True,
            passed_all_mandatory=passed,
        )
        return Verdict(
            evaluation=evaluation,
            reason=None if passed else f"{quality} is too little",
            feedback=self.feedback,
            confidence=self.confidence,
        )


@contextmanager
def service(
    engine: Engine,
    folder: Path,
    agents: Mapping[str, Agent],
    *,
    evaluator: Evaluator | None = None,
    tenant_id: str = "acme",
    seed: int = 3,
    settings: ExecutionSettings | None = None,
    profiles: Callable[[str], dict[str, Any]] = lambda _: {},
    **options: Any,
) -> Iterator[Arbiter]:
    """An arbiter over these agents, judged by a ``ScoreReader`` unless another evaluator is given."""
    for agent_id in agents:
        AgentRegistry(engine).register(AgentProfile(**{"id": agent_id, "kind": "python", **profiles(agent_id)}))
    options.setdefault("execution", settings or ExecutionSettings(refresh_s=0.0))
    with Collector(folder, tenant_id) as collector:
        arbiter = Arbiter(
            engine,
            collector,
            tenant_id=tenant_id,
            label="service",
            make_agent=lambda profile: agents[profile.id],
            clock=utc_now,
            rng=np.random.default_rng(seed),
            evaluator=evaluator or ScoreReader(),
            **options,
        )
        try:
            yield arbiter
        finally:
            arbiter.close()


class Logs:
    """The logs of one task, by kind."""

    def __init__(self) -> None:
        self.decisions: list[RoutingDecision] = []
        self.executions: list[Execution] = []
        self.evaluations: list[Evaluation] = []

    @property
    def counts(self) -> tuple[int, int, int]:
        return len(self.decisions), len(self.executions), len(self.evaluations)


def logs_of(folder: Path) -> dict[str, Logs]:
    """All logs in closed segments, by task id."""
    found: defaultdict[str, Logs] = defaultdict(Logs)
    for path in closed_segments(folder):
        for item in read_segment(path):
            assert isinstance(item, Frame)
            log = decode_log(item.payload)
            logs = found[log.task_id]
            match log:
                case RoutingDecision():
                    logs.decisions.append(log)
                case Execution():
                    logs.executions.append(log)
                case Evaluation():
                    logs.evaluations.append(log)
    return dict(found)
