"""Episodes: an agent does tasks of environments, turn by turn, and what came of it is written down.

All episodes of one agent go on side by side: each turn is one call of the agent with the turns of all that are not over
yet, so that a local model answers in batches and an endpoint several at a time.

An agent sees a conversation in text: what tools say comes from the user, since agents of all kinds can read that. The
log keeps the same words under the role ``tool``, with the calls that they answer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress
from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS
from flywheel.arbiter.evaluation.hacking.conversations import findings_in_conversation
from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.rewards import turn_reward
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.finding_gates import finding_gates, gate_name
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.safety import unsafe_in
from flywheel.errors import AgentError
from flywheel.records import (
    Evaluation,
    Execution,
    Iteration,
    Message,
    RoutingDecision,
    ToolUse,
    Turn,
)
from flywheel.tasks.environment import AskedTurn, MadeCall, Observation, Run, Verification, mandatory_check
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


def as_asked(transcript: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation as agents are asked it: in text, what tools said as messages of the user."""
    return tuple(_in_text(transcript))


def episode_execution(episode: Episode, evaluation: Evaluation, *, timestamp: datetime) -> Execution:
    """How the agent did. Success is passing every mandatory check; latency and tokens are sums over the turns.

    Args:
        episode: with a verification.
        evaluation: of the same episode; gives ids, tenant and score.
        timestamp: when the last answer was complete.
    """
    verification = _verified(episode)
    success, tokens_used, calls = evaluation.passed_all_mandatory, episode.tokens_used, episode.calls
    latency_ms = sum(turn.answer.latency_ms for turn in episode.turns)
    first_action_ms = episode.turns[0].answer.time_to_first_action_ms
    return Execution(
        task_id=evaluation.task_id,
        agent_id=evaluation.agent_id,
        tenant_id=evaluation.tenant_id,
        timestamp=timestamp,
        success=success,
        failure_reason=None if success else reason_of(episode, evaluation),
        partial_success=not success and episode.failure is None and verification.task > 0,
        latency_ms=latency_ms,
        tokens_used=tokens_used,
        thinking_tokens=sum(turn.answer.thinking_tokens for turn in episode.turns),
        output_tokens=episode.output_tokens,
        tool_call_count=len(calls),
        tool_call_success_rate=sum(call.right for call in calls) / len(calls) if calls else None,
        tools_used=_tools_used(calls),
        token_efficiency=evaluation.overall_score * 1000 / tokens_used if tokens_used else None,
        time_to_first_action=None if first_action_ms is None else min(first_action_ms, latency_ms),
        messages=episode.transcript,
        iterations=iterations_of_episode(episode),
    )


def episode_evaluation(
    episode: Episode,
    decision: RoutingDecision,
    *,
    timestamp: datetime,
    cost_usd: float = 0.0,
    rubric: Rubric = BUILTIN,
) -> Evaluation:
    """The environment's checks as gates, with the rubric's scores and one entry a turn; ``cost_usd`` is of all turns.

    An agent that did not answer to the end has failed, whatever state it left: it scores 0 in every term but safety.
    What looks like work on the reward is a gate for each kind of finding (docs/evaluation.md).
    """
    verification = _verified(episode)
    evidence = episode_evidence(episode, cost_usd=cost_usd)
    scores = rubric.scores(episode.task.task_type, evidence)
    gates = (
        mandatory_check("answered", float(episode.failure is None)),
        *verification.checks,
        *finding_gates(evidence.findings, rubric),
        mandatory_check("safe", scores.safety, threshold=rubric.safety_threshold),
    )
    passed = all(gate.passed for gate in gates if gate.mandatory)
    within_budget = episode.output_tokens <= THINKING_BUDGET_TOKENS[episode.task.complexity]
    return Evaluation(
        task_id=decision.task_id,
        agent_id=decision.selected_agent_id,
        tenant_id=decision.tenant_id,
        timestamp=timestamp,
        quality_gates=gates,
        rubric_scores=scores,
        overall_score=rubric.overall(episode.task.task_type, scores),
        caws_compliant=passed and within_budget,
        budget_compliant=within_budget,
        passed_all_mandatory=passed,
        minimal_diff_metrics=verification.minimal_diff,
        turn_data=tuple(_turns(episode, safety=scores.safety)),
        rubric=rubric.name,
    )


def episode_evidence(episode: Episode, *, cost_usd: float = 0.0) -> Evidence:
    """What a verified episode says to a rubric."""
    verification = _verified(episode)
    formats = [turn.observation.format for turn in episode.turns if turn.observation]
    asked = "\n".join(message.content or "" for message in episode.transcript if message.role != "assistant")
    answered = episode.failure is None
    unsafe = answered and any(unsafe_in(turn.answer.text, asked=asked) for turn in episode.turns)
    return Evidence(
        complexity=episode.task.complexity,
        answered=answered,
        format=sum(formats) / len(formats) if formats else 0.0,
        tool=verification.tool,
        done=verification.task,
        passed=verification.passed,
        needed=verification.minimal,
        safety=0.0 if unsafe else verification.safety,
        tokens_used=episode.tokens_used,
        cost_usd=cost_usd,
        calls=episode.calls,
        findings=findings_of(episode),
    )


def findings_of(episode: Episode) -> tuple[Finding, ...]:
    """What looks like work on the reward: as the environment found it, and in the conversation."""
    said = findings_in_conversation(episode.transcript, tools=episode.task.tools)
    return (*_verified(episode).findings, *said)


def _answers(agent: Agent, turns: Sequence[AgentTask]) -> list[Answer]:
    if not turns:
        return []
    try:
        return agent.answer(turns)
    except AgentError as error:
        return [failed_answer(turn.question, str(error), latency_ms=0.0) for turn in turns]


def _in_text(transcript: Sequence[Message]) -> Iterator[Message]:
    results: list[str] = []
    for message in transcript:
        if message.role == "tool":
            results.append(f"Result of {message.name}:\n{message.content or ''}")
            continue
        if results:
            yield Message(role="user", content="\n\n".join(results))
            results = []
        yield replace(message, tool_calls=())
    if results:
        yield Message(role="user", content="\n\n".join(results))


def _verified(episode: Episode) -> Verification:
    assert episode.verification is not None, "an episode whose environment broke says nothing of its agent"
    return episode.verification


def reason_of(episode: Episode, evaluation: Evaluation) -> str:
    """Why a verified episode is no success, in words."""
    verification = _verified(episode)
    if episode.failure is not None:
        return episode.failure
    if not verification.passed:
        return verification.reason
    failed = {gate.name for gate in evaluation.quality_gates if gate.mandatory and not gate.passed}
    voiding = next((found for found in findings_of(episode) if gate_name(found) in failed), None)
    return "the answer is unsafe" if voiding is None else f"the answer works on its reward: {voiding}"


def _turns(episode: Episode, *, safety: float) -> Iterator[Turn]:
    for number, turn in enumerate(episode.turns, start=1):
        seen = turn.observation or Observation(format=0.0, information_gain=0.0, progress=0.0)
        progress = seen.progress or 0.0
        yield Turn(
            turn_number=number,
            tool_called=seen.calls[0].call.name if seen.calls else None,
            information_gain=seen.information_gain,
            format_correctness=seen.format,
            task_progress=progress,
            safety_score=safety,
            turn_reward=turn_reward(
                gain=seen.information_gain,
                format_score=seen.format,
                progress=progress,
                safety=safety,
                multiplier=seen.multiplier,
            ),
        )


def iterations_of_episode(episode: Episode) -> tuple[Iteration, ...]:
    """The rounds of refinement, where the environment measured each; calls of tools are no refinement."""
    measured = [(turn, turn.observation) for turn in episode.turns if turn.observation and not turn.observation.calls]
    if len(measured) < 2:
        return ()
    return tuple(
        Iteration(
            iteration=number,
            latency_ms=turn.answer.latency_ms,
            tokens_used=turn.answer.prompt_tokens + turn.answer.output_tokens,
            quality_score=seen.progress or 0.0,
            feedback=seen.feedback,
        )
        for number, (turn, seen) in enumerate(measured, start=1)
    )


def _tools_used(calls: Sequence[MadeCall]) -> tuple[ToolUse, ...]:
    by_name: defaultdict[str, list[bool]] = defaultdict(list)
    for made in calls:
        by_name[made.call.name].append(made.right)
    return tuple(
        ToolUse(tool_name=name, call_count=len(right), success_rate=sum(right) / len(right))
        for name, right in by_name.items()
    )
