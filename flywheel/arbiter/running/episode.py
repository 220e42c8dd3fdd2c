"""A single task that an environment runs: the same episodes as in rounds, each turn within the task's own bounds."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

from flywheel.arbiter.agents.strategy import Answer, Progress, failed_answer, ignore_progress
from flywheel.arbiter.episode_logs import episode_evaluation, reason_of
from flywheel.arbiter.episodes import Episode, play
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.logs import Step
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.running.recording import NOBODYS_FAULT, steps_of
from flywheel.arbiter.task import Failure
from flywheel.errors import TaskSourceError
from flywheel.records import RoutingDecision
from flywheel.tasks.environment import Run
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import AgentTask, SourceTask

AskTurn = Callable[[AgentTask, int], tuple[Answer, Failure | None]]
"""Asks the agent one turn, counted from 1; a failed answer and why, where there is none."""


class Turns:
    """An agent as an episode asks it: nothing new is begun once the task's limits are reached."""

    def __init__(self, profile: AgentProfile, ask: AskTurn, *, limit: Callable[[], str | None]) -> None:
        self.failure: Failure | None = None
        self._profile, self._ask, self._limit = profile, ask, limit
        self._asked = 0

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """One turn; an episode of one task asks nothing else."""
        [task] = tasks
        self._asked += 1
        limit = self._limit() if self._asked > 1 else None
        if limit is not None:
            self.failure = Failure(kind="budget-exhausted", reason=limit)
            return [failed_answer(prompt_messages(task, self._profile.prompt), limit, latency_ms=0.0)]
        answer, self.failure = self._ask(task, self._asked)
        on_progress(1, 1)
        return [answer]


class Played(Struct, frozen=True, kw_only=True):
    """What came of a task that an environment ran: its turns as steps, and why it is no success."""

    episode: Episode | None
    steps: tuple[Step, ...]
    failure: Failure | None


def played(
    task: SourceTask,
    turns: Turns,
    profile: AgentProfile,
    decision: RoutingDecision,
    start: Callable[[SourceTask], Run],
    *,
    at: datetime,
    rubric: Rubric,
) -> Played:
    """Let the agent do the task, and verify it.

    Where nobody is to blame for its end, there is no episode: nothing is verified, and nothing learned.

    Raises:
        TaskSourceError: the environment broke; nothing can be said of the agent.
    """
    [episode] = play(turns, [task], start)
    failure = turns.failure
    given_up = failure.reason if failure is not None and failure.kind in NOBODYS_FAULT else None
    steps = steps_of(episode, profile, unjudged=given_up)
    if given_up is not None:
        return Played(episode=None, steps=steps, failure=failure)
    if episode.verification is None:
        raise TaskSourceError(
            f"task {task.id} could not be run or verified by its environment, and was not logged: {episode.broken}"
        )
    if failure is None:
        found = episode_evaluation(episode, decision, timestamp=at, rubric=rubric)
        failure = None if found.passed_all_mandatory else Failure(kind="rejected", reason=reason_of(episode, found))
    return Played(episode=episode, steps=steps, failure=failure)
