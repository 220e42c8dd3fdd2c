"""Episodes: an agent does tasks of environments, turn by turn.

All episodes of one agent go on side by side: each turn is one call of the agent with the turns of all that are not over
yet, so that a local model answers in batches and an endpoint several at a time.

An agent sees a conversation in text (``text_calls``), since agents of all kinds can read that; the transcript keeps
what tools say under the role ``tool``, with the calls that they answer.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress
from flywheel.arbiter.agents.text_calls import as_asked
from flywheel.errors import AgentError
from flywheel.records import Message
from flywheel.tasks.environment import AskedTurn, MadeCall, Observation, Run, Verification
from flywheel.tasks.source import AgentTask, BenchmarkTask, SourceTask

T = TypeVar("T", Observation, Verification)
MAX_TURNS = 50  # of any environment; its own limit is what ends an episode


class EpisodeTurn(Struct, frozen=True, kw_only=True):
    """One turn. ``observation`` is None where the agent had no answer."""

    answer: Answer
    observation: Observation | None = None


class Episode(Struct, frozen=True, kw_only=True):
    """What an agent made of one task of an environment.

    Attributes:
        task: which one.
        turns: in their order, at least one.
        transcript: the whole conversation, what the agent was asked at first included.
        verification: what the environment found at the end; None where it broke.
        broken: what the environment raised; nothing can be said of the agent then.
    """

    task: SourceTask
    turns: tuple[EpisodeTurn, ...]
    transcript: tuple[Message, ...]
    verification: Verification | None = None
    broken: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the agent did not answer to the end; None where it did."""
        return self.turns[-1].answer.failure_reason if self.turns else None

    @property
    def prompt_tokens(self) -> int:
        """Read, of all turns: each reads the conversation anew."""
        return sum(turn.answer.prompt_tokens for turn in self.turns)

    @property
    def output_tokens(self) -> int:
        """Written, of all turns."""
        return sum(turn.answer.output_tokens for turn in self.turns)

    @property
    def tokens_used(self) -> int:
        """Read and written, of all turns."""
        return self.prompt_tokens + self.output_tokens

    @property
    def calls(self) -> tuple[MadeCall, ...]:
        """The tool calls of all turns."""
        return tuple(call for turn in self.turns if turn.observation for call in turn.observation.calls)


class _Going:
    """An episode that goes on."""

    def __init__(self, task: SourceTask, start: Callable[[SourceTask], Run]) -> None:
        self.task = task
        self.turns: list[EpisodeTurn] = []
        self.transcript: tuple[Message, ...] = ()
        self.broken: str | None = None
        self.over = False
        self._start = start
        self._run: Run | None = None

    def asked(self) -> AgentTask | None:
        """The next turn; None where the environment cannot say what it is.

        A benchmark's task is handed over as it is: agents ask for it in their own prompt style.
        """
        if self._run is None:
            self._run = self._guarded(lambda: self._start(self.task))
            self.transcript = (self._guarded(self._run.opening) if self._run else None) or ()
        if self._run is None or not self.transcript:
            self.broken = self.broken or "it asks the agent nothing"
            self.over = True
            return None
        if isinstance(self.task, BenchmarkTask):
            return self.task
        return AskedTurn(
            id=self.task.id,
            task_type=self.task.task_type,
            complexity=self.task.complexity,
            question=as_asked(self.transcript),
            known_answer=self._known_answer,
        )

    def take(self, answer: Answer) -> None:
        """Take the agent's answer."""
        assert self._run is not None, "asked before answered"
        if answer.failure_reason is not None:
            self.turns.append(EpisodeTurn(answer=answer))
            self.over = True
            return
        run = self._run
        observation = self._guarded(lambda: within_bounds(run.step(answer.text), Observation))
        self.turns.append(EpisodeTurn(answer=answer, observation=observation))
        calls = tuple(made.call for made in observation.calls) if observation else ()
        said = Message(role="assistant", content=answer.text, tool_calls=calls)
        before = answer.messages if isinstance(self.task, BenchmarkTask) else self.transcript
        self.transcript = (*before, said, *(observation.messages if observation else ()))
        self.over = observation is None or observation.over or len(self.turns) >= MAX_TURNS

    def ended(self) -> Episode:
        """The episode, verified."""
        run = self._run
        sound = run is not None and self.broken is None
        verification = self._guarded(lambda: within_bounds(run.verify(), Verification)) if run and sound else None
        return Episode(
            task=self.task,
            turns=tuple(self.turns),
            transcript=self.transcript,
            verification=verification,
            broken=self.broken,
        )

    def _known_answer(self) -> str:
        assert self._run is not None, "asked before answered"
        return self._guarded(self._run.known_answer) or ""

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """The result, or None and ``broken``: one environment that breaks must not end the other episodes."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - environments are plug-ins; it is raised when all others are done
            self.broken = f"{type(error).__name__}: {error}"
            return None


def play(
    agent: Agent,
    tasks: Sequence[SourceTask],
    start: Callable[[SourceTask], Run],
    *,
    on_progress: Progress = ignore_progress,
) -> list[Episode]:
    """Let the agent do all tasks, and verify each.

    An agent that raises ``AgentError`` ends the episodes that are going on, each as a failure with its reason.

    Args:
        agent: who does them.
        tasks: of environments.
        start: begins a run of a task.
        on_progress: called with the episodes that are over.
    """
    episodes = [_Going(task, start) for task in tasks]
    while going := [episode for episode in episodes if not episode.over]:
        asked = [(episode, turn) for episode in going if (turn := episode.asked()) is not None]
        for (episode, _), answer in zip(asked, _answers(agent, [turn for _, turn in asked]), strict=True):
            episode.take(answer)
        on_progress(sum(episode.over for episode in episodes), len(episodes))
    return [episode.ended() for episode in episodes]


def within_bounds(said: T, kind: type[T]) -> T:
    """What an environment said, if it is what the pool accepts.

    Raises:
        msgspec.ValidationError: a field is of another type, or a score is not within 0–1.
    """
    return msgspec.convert(msgspec.to_builtins(said), type=kind)


def _answers(agent: Agent, turns: Sequence[AgentTask]) -> list[Answer]:
    if not turns:
        return []
    try:
        return agent.answer(turns)
    except AgentError as error:
        return [failed_answer(turn.question, str(error), latency_ms=0.0) for turn in turns]
