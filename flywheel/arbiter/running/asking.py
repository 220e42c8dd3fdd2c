"""One call of an agent, whose answer has to be one."""

from collections.abc import Callable

from flywheel.arbiter.agents.strategy import Agent, Answer, StreamingAgent
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.running.loads import Slots
from flywheel.arbiter.running.streaming import Stream
from flywheel.errors import AgentError
from flywheel.tasks.source import AgentTask


def ask(
    profile: AgentProfile,
    asked: AgentTask,
    *,
    make_agent: Callable[[AgentProfile], Agent],
    slots: Slots,
    stream: Stream | None,
) -> Answer:
    """The agent's answer, its text handed out on its way where somebody wants that. Holds a slot to its end.

    Raises:
        AgentError: the agent cannot answer, or answers what cannot be.
    """
    with slots.hold(profile):
        agent = make_agent(profile)
        if stream is not None and isinstance(agent, StreamingAgent):
            return _sound(agent.stream(asked, on_text=stream.send))
        answers = agent.answer([asked])
        if len(answers) != 1:
            raise AgentError(f"the agent gave {len(answers)} answers to one task")
        if stream is not None:
            stream.send(answers[0].text)
        return _sound(answers[0])


def _sound(answer: Answer) -> Answer:
    counts = answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens
    if min(counts) < 0 or not answer.latency_ms > 0:
        raise AgentError(f"the agent reports {counts} tokens and {answer.latency_ms:g} ms, which cannot be")
    return answer
