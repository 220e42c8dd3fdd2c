"""Tasks of the Berkeley Function Calling Leaderboard, read as data from the wheel ``bfcl-eval`` (Apache-2.0).

The package itself is never imported: its import needs the SDK of every model vendor it knows.
"""

import importlib.metadata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.errors import TaskSourceError
from flywheel.records import Complexity, Message
from flywheel.tasks.function_call_run import FunctionCallSource
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


class BfclSource(FunctionCallSource):
    """The single-turn categories, one task type each, split by the answer's function name.

    Tasks that no answer can pass are left out: in a few the published answer contradicts the published schema.
    """

    name = "bfcl"
    task_types = TASK_TYPES

    def read_tasks(self) -> Sequence[BenchmarkTask]:
        """The tasks in the order of the published files."""
        folder = data_folder()
        return [task for category in self.categories for task in self._read(folder, category)]

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
