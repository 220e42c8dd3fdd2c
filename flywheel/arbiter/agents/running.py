"""An agent with its limits: whoever asks it waits for a slot, counts as load, and cannot ask too much at once."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial

from flywheel.arbiter.agents.background import REQUESTS, in_thread
from flywheel.arbiter.agents.openai_compatible import OpenAICompatibleAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, SingleTaskAgent, ignore_progress
from flywheel.arbiter.profiles import AgentProfile
from flywheel.tasks.source import AgentTask


class RunningAgent:
    """Asks the agent of a profile, at most ``max_concurrent`` calls at once in this process.

    A call is one task of an agent that is asked for single tasks, and a whole batch of one that answers batches. For
    several threads and event loops at once.
    """

    def __init__(self, agent: Agent | SingleTaskAgent, profile: AgentProfile, slots: Slots) -> None:
        """The agent of a profile; ``slots`` are those of the process."""
        self.agent = agent
        self._id = profile.id
        self._limit = profile.max_concurrent
        self._slots = slots

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """One answer per task, in their order; waits for slots. Interrupted, it gives up what is under way.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        if isinstance(self.agent, SingleTaskAgent):
            return _gathered([REQUESTS.start(self._ask(self.agent, task)) for task in tasks], on_progress)
        with self._slots.hold(self._id, limit=self._limit, tasks=len(tasks)):
            return self.agent.answer(tasks, on_progress=on_progress)

    async def answer_async(self, task: AgentTask) -> Answer:
        """The answer to one task, for callers in an event loop. Cancelled, it gives up and hands its slot on.

        An agent that answers batches works in a thread, which nobody can stop: it keeps its slot until it has ended.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        if isinstance(self.agent, SingleTaskAgent):
            return await REQUESTS.run(self._ask(self.agent, task))
        await self._slots.acquire_async(self._id, limit=self._limit)
        try:
            call = in_thread(partial(self.agent.answer, [task]))
        except RuntimeError:  # no more threads
            self._slots.release(self._id)
            raise
        call.add_done_callback(lambda _: self._slots.release(self._id))
        [answer] = await asyncio.wrap_future(call)
        return answer

    async def _ask(self, agent: SingleTaskAgent, task: AgentTask) -> Answer:
        async with self._slots.hold_async(self._id, limit=self._limit):
            answer = await agent.ask(task)
        if isinstance(agent, OpenAICompatibleAgent):
            self._slots.report.unavailable(self._id, agent.rest_s, agent.rests_because)
        return answer


def _gathered(calls: Sequence[Future[Answer]], on_progress: Progress) -> list[Answer]:
    """What the calls answered; where one raises, or the caller is interrupted, the others are cancelled."""
    waiting = set(calls)
    try:
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for call in done:
                call.result()
            on_progress(len(calls) - len(waiting), len(calls))
        return [call.result() for call in calls]
    finally:
        for call in waiting:
            call.cancel()
