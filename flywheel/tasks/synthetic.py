"""Tasks made up for the smoke profile: small enough for a model from scratch, checked like the real ones.

Three task types over five functions. Here tasks are split by a hash of the question's content, not of the function:
there are too few functions to hold any out. What is tested is whether the loop learns at all, not whether a model
generalizes to new tools; that is what ``flywheel.tasks.function_calling`` is for.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product

from msgspec import Struct

from flywheel.errors import TaskSourceError
from flywheel.records import Complexity, Message
from flywheel.tasks.source import BenchmarkTask, ExpectedCall, Split, Tool
from flywheel.tasks.splits import split_of

NUMBERS = range(10)
PLACES = (
    *("Rome", "Oslo", "Lima", "Cairo", "Delhi", "Paris", "Quito", "Tunis", "Seoul", "Minsk"),
    *("Perth", "Kyoto", "Turin", "Basel", "Porto", "Izmir", "Hanoi", "Accra", "Dakar", "Riga"),
)
OPENINGS = ("", "Please: ", "Quick, ", "Tell me, ")
ADD = ("{a} plus {b}?", "add {a} and {b}.", "the sum of {a} and {b}?")
MULTIPLY = ("{a} times {b}?", "multiply {a} by {b}.", "the product of {a} and {b}?")
FEET = ("{a} feet in meters?", "convert {a} feet.", "how long are {a} feet?", "change {a} feet to meters.")
POUNDS = ("{a} pounds in kilograms?", "convert {a} pounds.", "how heavy are {a} pounds?", "change {a} pounds to kilos.")
WEATHER = ("the weather in {place}?", "is it raining in {place}?", "how warm is {place}?", "forecast for {place}.")


def _tool(name: str, description: str, **arguments: str) -> Tool:
    properties = {argument: {"type": kind} for argument, kind in arguments.items()}
    return Tool(
        name=name,
        description=description,
        parameters={"type": "dict", "properties": properties, "required": list(arguments)},
    )


TOOLS = (
    _tool("add", "Adds two numbers.", a="integer", b="integer"),
    _tool("multiply", "Multiplies two numbers.", a="integer", b="integer"),
    _tool("to_meters", "Converts feet.", feet="integer"),
    _tool("to_kilograms", "Converts pounds.", pounds="integer"),
    _tool("weather", "Says the weather.", place="string"),
)


class Made(Struct, frozen=True):
    """A question as it opens and what it asks, with the call that answers it."""

    opening: str
    content: str
    function: str
    arguments: dict[str, int | str]


class SyntheticSource:
    """The tasks, in a stable order, without chance."""

    name = "synthetic"

    def __init__(self, *, categories: Sequence[str], heldout_fraction: float, validation_fraction: float) -> None:
        """Take the tasks of some categories, which are also the task types.

        Raises:
            TaskSourceError: a category is unknown.
        """
        unknown = sorted(set(categories) - set(FAMILIES))
        if unknown:
            raise TaskSourceError(f"no such task category: {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
        self.categories = tuple(categories)
        self.heldout_fraction = heldout_fraction
        self.validation_fraction = validation_fraction

    def tasks(self) -> Sequence[BenchmarkTask]:
        """All tasks, category by category."""
        return self._tasks

    def by_id(self, task_id: str) -> BenchmarkTask:
        """The task of this id, for example ``synthetic:add-12``.

        Raises:
            KeyError: there is none.
        """
        return self._by_id[task_id]

    @cached_property
    def _tasks(self) -> tuple[BenchmarkTask, ...]:
        return tuple(
            self._task(category, number, made)
            for category in self.categories
            for number, made in enumerate(FAMILIES[category]())
        )

    @cached_property
    def _by_id(self) -> Mapping[str, BenchmarkTask]:
        return {task.id: task for task in self._tasks}

    def _task(self, category: str, number: int, made: Made) -> BenchmarkTask:
        return BenchmarkTask(
            id=f"{self.name}:{category.removeprefix('synthetic-')}-{number}",
            task_type=category,
            category=category,
            complexity=Complexity.STANDARD,
            question=(Message(role="user", content=made.opening + made.content),),
            tools=TOOLS,
            expected=(
                ExpectedCall(name=made.function, arguments={name: (value,) for name, value in made.arguments.items()}),
            ),
            split=split_of(  # of the content alone: no way of opening the question moves it to another split
                made.content,
                heldout_fraction=self.heldout_fraction,
                validation_fraction=self.validation_fraction,
            ),
        )


def additions() -> Iterator[Made]:
    """Sums and products of two digits."""
    for opening, (function, phrasings), a, b in product(
        OPENINGS, (("add", ADD), ("multiply", MULTIPLY)), NUMBERS, NUMBERS
    ):
        content = phrasings[(a + b + len(opening)) % len(phrasings)].format(a=a, b=b)
        yield Made(opening, content, function, {"a": a, "b": b})


def conversions() -> Iterator[Made]:
    """Feet and pounds of one digit."""
    for opening, (function, unit, phrasings), a in product(
        OPENINGS, (("to_meters", "feet", FEET), ("to_kilograms", "pounds", POUNDS)), NUMBERS
    ):
        for phrasing in phrasings:
            yield Made(opening, phrasing.format(a=a), function, {unit: a})


def lookups() -> Iterator[Made]:
    """The weather of twenty places."""
    for opening, place, phrasing in product(OPENINGS, PLACES, WEATHER):
        yield Made(opening, phrasing.format(place=place), "weather", {"place": place})


FAMILIES = {
    "synthetic-add": additions,
    "synthetic-convert": conversions,
    "synthetic-lookup": lookups,
}
