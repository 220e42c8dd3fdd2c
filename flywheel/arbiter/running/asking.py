"""One call of an agent, whose answer has to be one."""

from collections.abc import Callable

from flywheel.arbiter.agents.strategy import Agent, Answer, StreamingAgent, send_whole
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
    stream: Stream,
) -> Answer:
    """The agent's answer, handed out on its way where somebody wants that. Holds a slot to its end.

    Raises:
        AgentError: the agent cannot answer, or answers what cannot be.
    """
    with slots.hold(profile):
        agent = make_agent(profile)
        if isinstance(agent, StreamingAgent):
            return _sound(agent.stream(asked, to=stream))
        answers = agent.answer([asked])
        if len(answers) != 1:
            raise AgentError(f"the agent gave {len(answers)} answers to one task")
        send_whole(answers[0], stream)
        return _sound(answers[0])


def _sound(answer: Answer) -> Answer:
    counts = answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens
    if min(counts) < 0 or not answer.latency_ms > 0:
        raise AgentError(f"the agent reports {counts} tokens and {answer.latency_ms:g} ms, which cannot be")
    return answer
