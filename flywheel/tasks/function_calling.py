"""Tasks of the Berkeley Function Calling Leaderboard, read as data from the wheel ``bfcl-eval`` (Apache-2.0).

The package itself is never imported: its import needs the SDK of every model vendor it knows.
"""

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.errors import TaskSourceError
from flywheel.records import Complexity, Message
from flywheel.tasks.prompt import reference_answer
from flywheel.tasks.source import BenchmarkTask, ExpectedCall, Split, Tool
from flywheel.tasks.splits import split_of

T = TypeVar("T")
DISTRIBUTION = "bfcl-eval"
TASK_TYPES = {
    "simple_python": "tool-calling-simple",
    "multiple": "tool-calling-multiple",
    "live_simple": "tool-calling-live",
    "parallel": "tool-calling-parallel",
    "irrelevance": "tool-calling-irrelevance",
}


class _Function(Struct, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]


class _Question(Struct, frozen=True):
    id: str
    question: list[list[Message]]
    function: list[_Function]


class _Answer(Struct, frozen=True):
    id: str
    ground_truth: list[dict[str, dict[str, tuple[Any, ...]]]]


class BfclSource:
    """The single-turn categories, one task type each, split by the answer's function name.

    Tasks that no answer can pass are left out: in a few the published answer contradicts the published schema.
    """

    name = "bfcl"

    def __init__(self, *, categories: Sequence[str], heldout_fraction: float, validation_fraction: float) -> None:
        unknown = sorted(set(categories) - set(TASK_TYPES))
        if unknown:
            raise TaskSourceError(f"no such task category: {', '.join(unknown)}; there are {', '.join(TASK_TYPES)}")
        self.categories = tuple(categories)
        self.heldout_fraction = heldout_fraction
        self.validation_fraction = validation_fraction

    def tasks(self) -> Sequence[BenchmarkTask]:
        """All tasks, category by category in the order of the published files.

        Raises:
            TaskSourceError: the data wheel is not installed or does not have the expected files.
        """
        return self._tasks

    def by_id(self, task_id: str) -> BenchmarkTask:
        """The task of this id, for example ``bfcl:simple_python_0``.

        Raises:
            KeyError: there is none.
        """
        return self._by_id[task_id]

    @cached_property
    def _tasks(self) -> tuple[BenchmarkTask, ...]:
        folder = data_folder()
        return tuple(task for category in self.categories for task in self._read(folder, category))

    @cached_property
    def _by_id(self) -> Mapping[str, BenchmarkTask]:
        return {task.id: task for task in self._tasks}

    def _read(self, folder: Path, category: str) -> Iterator[BenchmarkTask]:
        questions = _lines(folder / f"BFCL_v4_{category}.json", _Question)
        answers: dict[str, _Answer] = {}
        if category != "irrelevance":  # where no function fits, nothing is published but the questions
            answers = {a.id: a for a in _lines(folder / "possible_answer" / f"BFCL_v4_{category}.json", _Answer)}
        for question in questions:
            task = self._task(category, question, answers.get(question.id))
            if check(task.expected, task.tools, reference_answer(task)).exact:
                yield task

    def _task(self, category: str, question: _Question, answer: _Answer | None) -> BenchmarkTask:
        calls = answer.ground_truth if answer else []
        expected = tuple(ExpectedCall(name=name, arguments=args) for call in calls for name, args in call.items())
        named_after = expected[0].name if expected else question.function[0].name
        return BenchmarkTask(
            id=f"{self.name}:{question.id}",
            task_type=TASK_TYPES[category],
            category=category,
            complexity=complexity_of(len(question.function)),
            question=tuple(question.question[0]),
            tools=tuple(
                Tool(name=f.name, description=f.description, parameters=f.parameters) for f in question.function
            ),
            expected=expected,
            split=self._split(named_after),
        )

    def _split(self, function_name: str) -> Split:
        return split_of(
            function_name, heldout_fraction=self.heldout_fraction, validation_fraction=self.validation_fraction
        )


def complexity_of(tool_count: int) -> Complexity:
    """The task's complexity by its number of tools, by the rules of SPEC section 7."""
    if tool_count >= 3:
        return Complexity.COMPLEX
    return Complexity.STANDARD if tool_count >= 1 else Complexity.TRIVIAL


def data_folder() -> Path:
    """The folder of the benchmark's files inside the installed wheel.

    Raises:
        TaskSourceError: it is not installed.
    """
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise TaskSourceError(
            f"the benchmark's tasks are not installed: pip install --no-deps {DISTRIBUTION} (make run does it)"
        ) from None
    return Path(str(distribution.locate_file("bfcl_eval"))) / "data"


def _lines(path: Path, kind: type[T]) -> list[T]:
    try:
        return msgspec.json.Decoder(kind).decode_lines(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise TaskSourceError(f"{path} cannot be read as tasks: {error}; reinstall {DISTRIBUTION}") from error
