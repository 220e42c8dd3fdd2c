"""Synthetic function-calling tasks that a tiny model can learn in seconds: for tests, never for figures.

Three task types with five tools and one-digit numbers. All combinations are enumerated, so nothing is drawn and the
tasks are the same everywhere. With so few functions a split by function would leave types without training tasks:
here the split is by the hash of the question's content (what is asked, not how it is phrased), so that no held-out
content was trained on in other words.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from flywheel.errors import TaskSourceError
from flywheel.records import Complexity, Message
from flywheel.tasks.source import BenchmarkTask, ExpectedCall, Tool
from flywheel.tasks.splits import split_of

DIGITS = range(10)
UNITS = ("meters", "feet", "miles", "yards")
ITEMS = ("apples", "pears", "plums", "nuts", "eggs", "rolls", "cups", "pens", "lamps", "books")


def _tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return Tool(name=name, description=description, parameters=schema)


TOOLS = (
    _tool("add", "Adds", a="integer", b="integer"),
    _tool("multiply", "Multiplies", a="integer", b="integer"),
    _tool("convert", "Converts", value="integer", source="string", target="string"),
    _tool("price", "Price", count="integer", item="string"),
    _tool("stock", "Stock", item="string", day="integer"),
)
_PHRASES = {
    "add": ("What is {a} plus {b}?", "Add {a} and {b}.", "Sum of {a} and {b}?"),
    "multiply": ("What is {a} times {b}?", "Multiply {a} and {b}.", "Product of {a} and {b}?"),
    "convert": ("Convert {value} {source} to {target}.", "How many {target} are {value} {source}?"),
    "price": ("What do {count} {item} cost?", "Price of {count} {item}?"),
    "stock": ("How many {item} are left on day {day}?", "Stock of {item} on day {day}?"),
}
TASK_TYPES = {
    "synthetic-add": ("add", "multiply"),
    "synthetic-convert": ("convert",),
    "synthetic-lookup": ("price", "stock"),
}


class SyntheticSource:
    """The enumerated tasks; the category of each is its task type."""

    name = "synthetic"

    def __init__(self, *, categories: Sequence[str], heldout_fraction: float, validation_fraction: float) -> None:
        unknown = sorted(set(categories) - set(TASK_TYPES))
        if unknown:
            raise TaskSourceError(f"no such task category: {', '.join(unknown)}; there are {', '.join(TASK_TYPES)}")
        self.categories = tuple(categories)
        self.heldout_fraction = heldout_fraction
        self.validation_fraction = validation_fraction

    def tasks(self) -> Sequence[BenchmarkTask]:
        """All tasks, type by type."""
        return self._tasks

    def by_id(self, task_id: str) -> BenchmarkTask:
        """The task of this id, for example ``synthetic:add-3-4-0``.

        Raises:
            KeyError: there is none.
        """
        return self._by_id[task_id]

    @cached_property
    def _tasks(self) -> tuple[BenchmarkTask, ...]:
        return tuple(self._of_types())

    @cached_property
    def _by_id(self) -> Mapping[str, BenchmarkTask]:
        return {task.id: task for task in self._tasks}

    def _of_types(self) -> Iterator[BenchmarkTask]:
        for category in self.categories:
            for function in TASK_TYPES[category]:
                for arguments in _argument_values(function):
                    for number, phrase in enumerate(_PHRASES[function]):
                        yield self._task(category, function, arguments, number, phrase)

    def _task(
        self, category: str, function: str, arguments: Mapping[str, Any], number: int, phrase: str
    ) -> BenchmarkTask:
        content = "-".join([function, *map(str, arguments.values())])
        return BenchmarkTask(
            id=f"{self.name}:{content}-{number}",
            task_type=category,
            category=category,
            complexity=Complexity.TRIVIAL,
            question=(Message(role="user", content=phrase.format(**arguments)),),
            tools=TOOLS,
            expected=(ExpectedCall(name=function, arguments={key: (value,) for key, value in arguments.items()}),),
            split=split_of(
                content, heldout_fraction=self.heldout_fraction, validation_fraction=self.validation_fraction
            ),
        )


def _argument_values(function: str) -> Iterator[dict[str, Any]]:
    if function in {"add", "multiply"}:
        yield from ({"a": a, "b": b} for a, b in product(DIGITS, DIGITS))
    elif function == "convert":
        pairs = ((source, target) for source, target in product(UNITS, UNITS) if source != target)
        yield from ({"value": v, "source": s, "target": t} for (s, t), v in product(pairs, DIGITS))
    elif function == "price":
        yield from ({"count": count, "item": item} for item, count in product(ITEMS, DIGITS))
    else:
        yield from ({"item": item, "day": day} for item, day in product(ITEMS, DIGITS))
