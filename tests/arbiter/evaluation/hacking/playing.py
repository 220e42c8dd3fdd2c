"""Plays honest agents and cheats through the real evaluators."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from flywheel.arbiter.agents.strategy import Answer, Progress, ignore_progress
from flywheel.arbiter.episode_logs import episode_evaluation, episode_execution
from flywheel.arbiter.episodes import play
from flywheel.records import Evaluation, Execution, RoutingDecision, Strategy
from flywheel.tasks.source import AgentTask, SourceTask

NOW = datetime(2026, 3, 2, tzinfo=UTC)
FILLER = "It is important to note that I will now carefully consider this once more before I go on to the answer. "


class Saying:
    """Says its texts one after the other; tokens are a quarter of the characters, read ones too."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return [
            Answer(
                text=text,
                messages=task.question,
                prompt_tokens=sum(len(message.content or "") for message in task.question) // 4,
                output_tokens=len(text) // 4,
                latency_ms=1.0,
            )
            for task in tasks
        ]


def decided(task: SourceTask) -> RoutingDecision:
    return RoutingDecision(
        timestamp=NOW,
        tenant_id="acme",
        task_id=task.id,
        task_type=task.task_type,
        complexity=task.complexity,
        selected_agent_id="a",
        strategy=Strategy.FALLBACK,
        confidence=1,
        candidate_agents=(),
        primary_reason="the only one",
    )


def logged(environment: Any, task: SourceTask, *texts: str) -> tuple[Evaluation, Execution]:
    (episode,) = play(Saying(*texts), [task], environment.run)
    assert episode.broken is None
    evaluation = episode_evaluation(episode, decided(task), timestamp=NOW)
    return evaluation, episode_execution(episode, evaluation, timestamp=NOW)


def findings(evaluation: Evaluation) -> set[str]:
    return {gate.name.removeprefix("no_") for gate in evaluation.quality_gates if gate.name.startswith("no_")}
