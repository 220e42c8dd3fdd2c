"""Function calling as an environment: one turn, verified against the published calls."""

from collections.abc import Mapping, Sequence
from typing import Self

from flywheel.arbiter.evaluation.function_calls import CallCheck, check
from flywheel.errors import TaskSourceError
from flywheel.records import Message
from flywheel.settings import TasksSettings
from flywheel.tasks.environment import Observation, TaskList, Verification, mandatory_check
from flywheel.tasks.prompt import prompt_messages, reference_answer
from flywheel.tasks.source import BenchmarkTask, SourceTask

NO_ANSWER = CallCheck(format=0.0, tool=0.0, arguments=0.0, exact=False, reason="there is no answer")


class FunctionCallSource(TaskList[BenchmarkTask]):
    """What sources of function-calling tasks have in common: categories, splits, and how a task is run and verified."""

    name: str
    task_types: Mapping[str, object]

    def __init__(self, *, categories: Sequence[str], heldout_fraction: float, validation_fraction: float) -> None:
        unknown = sorted(set(categories) - set(self.task_types))
        if unknown:
            raise TaskSourceError(
                f"no such task category: {', '.join(unknown)}; there are {', '.join(self.task_types)}"
            )
        self.categories = tuple(categories)
        self.heldout_fraction = heldout_fraction
        self.validation_fraction = validation_fraction

    @classmethod
    def of_settings(cls, tasks: TasksSettings) -> Self:
        """The source with the settings' categories and splits."""
        return cls(
            categories=tasks.categories,
            heldout_fraction=tasks.heldout_fraction,
            validation_fraction=tasks.validation_fraction,
        )

    def run(self, task: SourceTask) -> "FunctionCallRun":
        """Begin a run."""
        return FunctionCallRun(self.by_id(task.id))


class FunctionCallRun:
    """One answer to one task."""

    def __init__(self, task: BenchmarkTask) -> None:
        self._task = task
        self._checked = NO_ANSWER

    def opening(self) -> tuple[Message, ...]:
        """The canonical prompt without demonstrations."""
        return prompt_messages(self._task)

    def known_answer(self) -> str:
        """The published calls."""
        return reference_answer(self._task)

    def step(self, answer: str) -> Observation:
        """Check the answer; there is no second one."""
        self._checked = check(self._task.expected, self._task.tools, answer)
        gain = self._checked.arguments
        return Observation(format=self._checked.format, information_gain=gain, progress=gain)

    def verify(self) -> Verification:
        """Whether the calls are those published."""
        checked, calls = self._checked, len(self._checked.calls)
        return Verification(
            checks=(
                mandatory_check("valid_format", checked.format),
                mandatory_check("right_function", checked.tool),
                mandatory_check("right_arguments", checked.arguments),
            ),
            tool=checked.tool,
            task=checked.arguments,
            minimal=min(1.0, len(self._task.expected) / calls) if calls else 1.0,
            reason=checked.reason,
            evidence=tuple(
                f"{call.name}: {'right' if right else 'wrong'}"
                for call, right in zip(checked.calls, checked.right, strict=True)
            ),
        )
