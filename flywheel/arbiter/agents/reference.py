"""The reference agent: it answers with the benchmark's published answer."""

import hashlib
import json
import time
from collections.abc import Sequence

from flywheel.arbiter.agents.strategy import Answer, Progress, ignore_progress
from flywheel.errors import AgentError
from flywheel.tasks.environment import AskedTurn
from flywheel.tasks.prompt import prompt_messages, reference_answer
from flywheel.tasks.source import AgentTask, BenchmarkTask

WRONG_FUNCTION = "noop"
NO_SUCH_CALL = json.dumps({"name": WRONG_FUNCTION, "arguments": {}})
CHARACTERS_PER_TOKEN = 4


class ReferenceAgent:
    """Stands for a strong paid model, such as a team would have its small model learn from.

    It is no model: it looks up the answer that the benchmark publishes, or plays the known solution of an environment,
    so its success rate says nothing about any product. It is here because the loop needs a good teacher and must run
    without an account anywhere. Its token counts are estimates of ``CHARACTERS_PER_TOKEN`` characters each, the usual
    rule of thumb for English and JSON; its latency is that of the look-up.
    """

    def __init__(self, *, error_rate: float = 0.0) -> None:
        """``error_rate`` is the share of tasks, chosen by their id, answered with a call of the function ``noop``."""
        self._error_rate = error_rate

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """Look the answers up."""
        answers = []
        for task in tasks:
            started = time.perf_counter()
            text = known_answer(task)
            if self._errs(task.id):
                text = with_wrong_functions(text) if isinstance(task, BenchmarkTask) else NO_SUCH_CALL
            messages = prompt_messages(task)
            latency_ms = max((time.perf_counter() - started) * 1000, 0.001)
            answers.append(
                Answer(
                    text=text,
                    messages=messages,
                    prompt_tokens=estimated_tokens(*(message.content or "" for message in messages)),
                    output_tokens=estimated_tokens(text),
                    latency_ms=latency_ms,
                    time_to_first_action_ms=latency_ms,  # the whole answer is there at once
                )
            )
            on_progress(len(answers), len(tasks))
        return answers

    def _errs(self, task_id: str) -> bool:
        digest = hashlib.blake2b(task_id.encode(), digest_size=8, person=b"error-rate").digest()
        return int.from_bytes(digest) / 2**64 < self._error_rate


def known_answer(task: AgentTask) -> str:
    """The published answer of a benchmark's task, or the known answer to a turn of an environment's.

    Raises:
        AgentError: the task has neither.
    """
    if isinstance(task, BenchmarkTask):
        return reference_answer(task)
    if isinstance(task, AskedTurn):
        return task.known_answer()
    raise AgentError(f"task {task.id} has no known answer, which is all that the reference agent can give")


def with_wrong_functions(text: str) -> str:
    """The answer with every function's name replaced by ``noop``."""
    calls = [{**json.loads(line), "name": WRONG_FUNCTION} for line in text.splitlines()]
    return "\n".join(json.dumps(call, ensure_ascii=False) for call in calls)


def estimated_tokens(*texts: str) -> int:
    """How many tokens the texts are, about."""
    return sum(-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts)
