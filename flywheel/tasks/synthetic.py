"""Synthetic function-calling tasks that a tiny model can learn in seconds: for tests, never for figures.

Three task types with five tools; every question holds one digit and one word, which the answer copies. All combinations
are enumerated, so nothing is drawn and the tasks are the same everywhere. With so few functions a split by function
would leave types without training tasks: here the split is by the hash of the question's content (what is asked, not
how it is phrased), so that no held-out content was trained on in other words.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from flywheel.records import Complexity, Message
from flywheel.tasks.function_call_run import FunctionCallSource
from flywheel.tasks.source import BenchmarkTask, ExpectedCall, Tool
from flywheel.tasks.splits import split_of

DIGITS = range(1, 7)
ITEMS = ("apples", "pears", "eggs", "cups", "pens", "books")
UNITS = ("meters", "miles", "yards", "grams", "pounds", "liters")


def _tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return Tool(name=name, description=description, parameters=schema)


TOOLS = (
    _tool("add", "Adds", count="integer", item="string"),
    _tool("remove", "Removes", count="integer", item="string"),
    _tool("convert", "Converts", value="integer", unit="string"),
    _tool("price", "Price", count="integer", item="string"),
    _tool("stock", "Stock", day="integer", item="string"),
)
_QUESTIONS = {
    "add": "put {count} {item} in",
    "remove": "take {count} {item} out",
    "convert": "convert {value} {unit}",
    "price": "cost of {count} {item}?",
    "stock": "left on day {day} of {item}?",
}
_OPENINGS = ("", "Please: ", "Now: ", "Hello! ", "Next: ", "Hey, ", "Well, ", "So: ")
TASK_TYPES = {
    "synthetic-add": ("add", "remove"),
    "synthetic-convert": ("convert",),
    "synthetic-lookup": ("price", "stock"),
}


class SyntheticSource(FunctionCallSource):
    """The enumerated tasks; the category of each is its task type."""

    name = "synthetic"
    task_types = TASK_TYPES

    def read_tasks(self) -> Sequence[BenchmarkTask]:
        """The tasks, type by type."""
        return list(self._of_types())

    def _of_types(self) -> Iterator[BenchmarkTask]:
        for category in self.categories:
            for function in TASK_TYPES[category]:
                for arguments in _argument_values(function):
                    for number, opening in enumerate(_OPENINGS):
                        yield self._task(category, function, arguments, number, opening)

    def _task(
        self, category: str, function: str, arguments: Mapping[str, Any], number: int, opening: str
    ) -> BenchmarkTask:
        content = "-".join([function, *map(str, arguments.values())])
        return BenchmarkTask(
            id=f"{self.name}:{content}-{number}",
            task_type=category,
            category=category,
            complexity=Complexity.TRIVIAL,
            question=(Message(role="user", content=opening + _QUESTIONS[function].format(**arguments)),),
            tools=_offered(function),
            expected=(ExpectedCall(name=function, arguments={key: (value,) for key, value in arguments.items()}),),
            split=split_of(
                content, heldout_fraction=self.heldout_fraction, validation_fraction=self.validation_fraction
            ),
        )


def _offered(function: str) -> tuple[Tool, ...]:
    """The right tool and one other, in the order of the list."""
    position = next(position for position, tool in enumerate(TOOLS) if tool.name == function)
    return tuple(TOOLS[index] for index in sorted((position, (position + 1) % len(TOOLS))))


def _argument_values(function: str) -> Iterator[dict[str, Any]]:
    tool = next(tool for tool in TOOLS if tool.name == function)
    number, word = tool.parameters["required"]
    for digit, text in product(DIGITS, UNITS if word == "unit" else ITEMS):
        yield {number: digit, word: text}
