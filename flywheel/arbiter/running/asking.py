"""One call of an agent in a slot of its own, whose answer has to be one."""

import logging
from collections.abc import Callable
from math import inf

import msgspec

from flywheel.arbiter.agents.exchange import shortened
from flywheel.arbiter.agents.running import Calls, limited
from flywheel.arbiter.agents.slots import Place, Slots
from flywheel.arbiter.agents.strategy import MOST_TOKENS, Agent, Answer
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.running.calls import CallTimeoutError, CancelToken, TaskCancelledError, awaited, in_thread
from flywheel.arbiter.running.streaming import Stream
from flywheel.arbiter.task import Failure, FailureKind
from flywheel.errors import AgentError, FlywheelError
from flywheel.tasks.source import AgentTask

LOGGER = logging.getLogger(__name__)


class NoSlotError(FlywheelError):
    """Raised when all slots of an agent were taken for as long as the task could wait. It is no fault of the agent."""


KINDS: tuple[tuple[type[FlywheelError], FailureKind], ...] = (
    (TaskCancelledError, "cancelled"),
    (CallTimeoutError, "timeout"),
    (NoSlotError, "saturated"),
    (AgentError, "agent-error"),
)


def ask(
    profile: AgentProfile,
    asked: AgentTask,
    *,
    place: Place,
    make_agent: Callable[[AgentProfile], Agent],
    slots: Slots,
    stream: Stream,
    left_s: Callable[[], float | None],
    token: CancelToken,
) -> Answer:
    """The agent's answer, handed out on its way where somebody wants that.

    The slot is held until the call has really ended, also where nobody waits for it any more.

    Args:
        profile: whom.
        asked: what.
        place: in the agent's line; it is left here, whatever happens.
        make_agent: from the profile to the agent.
        slots: of the place.
        stream: gets the pieces. While they come, the answer may take longer than the agent's time.
        left_s: seconds until the task must be done; None: no limit.
        token: cancels.

    Raises:
        AgentError: the agent cannot answer, or answers what cannot be.
        NoSlotError: it had no room in time.
        CallTimeoutError: it did not answer in time.
        TaskCancelledError: the task was cancelled.
    """
    _wait(place, profile, seconds=left_s(), token=token)
    calls = Calls()

    def work() -> Answer:
        try:
            agent = limited(make_agent(profile), profile, slots)
            return agent.answer_in_slot(asked, to=stream, calls=calls)
        finally:
            place.leave()

    try:
        token.raise_if_cancelled()
        answer = in_thread(work, name=f"flywheel-agent-{profile.id}")
    except BaseException:
        place.leave()
        raise
    try:
        return _sound(
            awaited(
                answer,
                seconds=profile.timeout_s,
                at_most_s=left_s(),
                last_sign_s=lambda: stream.last_s,
                token=token,
            )
        )
    except BaseException:
        calls.give_up()
        raise


def why_no_answer(error: Exception, profile: AgentProfile, task_id: str) -> Failure:
    """What ``ask`` raised as the failure of an attempt; what it should not raise is a crash of the agent."""
    kind = next((kind for known, kind in KINDS if isinstance(error, known)), None)
    if kind is not None:
        return Failure(kind=kind, reason=str(error))
    LOGGER.warning("agent %s crashed on task %s", profile.id, task_id, exc_info=error)
    told = shortened(f"{type(error).__name__}: {error}")
    return Failure(kind="agent-error", reason=f"the agent crashed: {told}")


def _wait(place: Place, profile: AgentProfile, *, seconds: float | None, token: CancelToken) -> None:
    try:
        place.wait(lambda slot: awaited(slot, seconds=seconds, token=token))
    except CallTimeoutError:
        raise NoSlotError(
            f"all {profile.max_concurrent} slots of {profile.id} were taken until the task's time was over; "
            f"raise its max_concurrent, or add agents"
        ) from None


def _sound(answer: Answer) -> Answer:
    counts = answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens
    if min(counts) < 0 or max(counts) > MOST_TOKENS or not 0 < answer.latency_ms < inf:
        raise AgentError(f"the agent reports {counts} tokens and {answer.latency_ms:g} ms, which cannot be")
    try:
        msgspec.json.encode((answer.text, answer.tool_calls, answer.failure_reason))
    except UnicodeEncodeError as error:
        raise AgentError(f"what the agent says is no text: {error}") from None
    return answer
