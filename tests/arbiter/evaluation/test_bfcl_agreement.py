"""The rubric's verdict and the benchmark's own checker's, over its published answers and random corruptions of them."""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from flywheel.arbiter.agents.strategy import Answer
from flywheel.tasks.source import ExpectedCall, Tool
from tests.arbiter.evaluation.published import verdict_on
from tests.fakes import benchmark_task

CATEGORIES = ("simple_python", "multiple", "live_simple", "live_multiple", "parallel", "parallel_multiple")
CORRUPTIONS_PER_TASK = 8
BEST_WRONG = 0.9
"""A wrong answer has at most half of the task's weight of 0.35."""

Calls = list[tuple[str, dict[str, Any]]]
Checker = Callable[[list[dict[str, Any]], Calls, list[dict[str, Any]], str], bool]

pytestmark = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason="the data wheel bfcl-eval is not installed")


@pytest.fixture(scope="module")
def official() -> Iterator[Checker]:
    """The wheel's ``ast_checker``. Its model table and converters need every vendor's SDK, so they are left out."""
    with pytest.MonkeyPatch.context() as patch:
        models = ModuleType("bfcl_eval.constants.model_config")
        models.MODEL_CONFIG_MAPPING = {"agent": ModuleType("agent")}  # type: ignore[attr-defined]
        models.MODEL_CONFIG_MAPPING["agent"].underscore_to_dot = False
        patch.setitem(sys.modules, models.__name__, models)
        for language in ("java", "js"):
            name = f"bfcl_eval.eval_checker.ast_eval.type_convertor.{language}_type_converter"
            converter = ModuleType(name)
            setattr(converter, f"{language}_type_converter", None)
            patch.setitem(sys.modules, name, converter)
        from bfcl_eval.constants.enums import Language
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

        def verdict(
            functions: list[dict[str, Any]], calls: Calls, answers: list[dict[str, Any]], category: str
        ) -> bool:
            output = [{name: arguments} for name, arguments in calls]
            try:
                found = ast_checker(functions, output, answers, Language.PYTHON, category, "agent")
            except (AttributeError, KeyError, TypeError, IndexError, OverflowError):
                return False  # the benchmark's checker crashes on some wrong shapes; they are wrong all the same
            return bool(found["valid"])

        yield verdict


def published(category: str) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    spec = find_spec("bfcl_eval")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).parent / "data"
    file = f"BFCL_v4_{category}.json"
    questions = [json.loads(line) for line in (data / file).read_text(encoding="utf-8").splitlines()]
    answers = [json.loads(line) for line in (data / "possible_answer" / file).read_text(encoding="utf-8").splitlines()]
    for question, answer in zip(questions, answers, strict=True):
        yield question["function"], answer["ground_truth"]


def right_calls(answers: list[dict[str, Any]], rng: random.Random) -> Calls:
    return [
        (name, {key: plain(rng.choice(kept)) for key, values in arguments.items() if (kept := needed(values, rng))})
        for answer in answers
        for name, arguments in answer.items()
    ]


def needed(values: list[Any], rng: random.Random) -> list[Any]:
    given = [value for value in values if value != ""]
    return [] if "" in values and rng.random() < 0.5 else given


def plain(value: Any) -> Any:
    """An answer's value as an agent would write it: in dictionaries the answer lists alternatives for every key."""
    if isinstance(value, dict):
        given = {key: [v for v in as_list(values) if v != ""] for key, values in value.items()}
        return {key: plain(values[0]) for key, values in given.items() if values}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def corrupt(calls: Calls, rng: random.Random) -> Calls:
    """The calls with one to three random changes: some wrong, some that the rules forgive."""
    calls = json.loads(json.dumps(calls))
    for _ in range(rng.randint(1, 3)):
        if not calls:
            break
        index = rng.randrange(len(calls))
        name, arguments = calls[index]
        kind = rng.randrange(7)
        if kind == 0:
            rng.shuffle(calls)
        elif kind == 1:
            calls[index] = (rng.choice([name + "_x", name.upper(), name]), arguments)
        elif kind == 2:
            calls.append((name, dict(arguments))) if rng.random() < 0.5 else calls.pop(index)
        elif kind == 3:
            arguments[rng.choice(["unknown", *arguments])] = rng.choice(ODD_VALUES)
        elif arguments:
            key = rng.choice(list(arguments))
            if kind == 4:
                del arguments[key]
            else:
                arguments[key] = changed(arguments[key], rng)
    return [(name, arguments) for name, arguments in calls]


ODD_VALUES: list[Any] = [
    None,
    "",
    "a",
    0,
    1,
    -1,
    1.0,
    True,
    False,
    [],
    ["a"],
    [1, 2.5],
    [[1]],
    {},
    {"a": 1},
    [{"a": "b"}],
]


CHANGES: dict[type, Callable[[Any, random.Random], list[Any]]] = {
    bool: lambda value, _: [not value, int(value), str(value)],
    int: lambda value, _: [value + 1, float(value), str(value), -value],
    float: lambda value, _: [int(value), value + 0.5, str(value)],
    str: lambda value, _: [value.upper(), value.replace(" ", ""), value + ".", f"'{value}'", value[:-1], [value]],
    list: lambda value, rng: [[maybe_changed(v, rng) for v in value], value[::-1], value[1:], [*value, *value[:1]]],
    dict: lambda value, rng: [
        {key: maybe_changed(v, rng) for key, v in value.items()},
        {**value, "extra": 1},
        dict(list(value.items())[1:]),
    ],
}


def changed(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2 or type(value) not in CHANGES:
        return rng.choice(ODD_VALUES)
    return rng.choice(CHANGES[type(value)](value, rng))


def maybe_changed(value: Any, rng: random.Random) -> Any:
    return changed(value, rng) if rng.random() < 0.4 else value


def ours(functions: list[dict[str, Any]], calls: Calls, answers: list[dict[str, Any]]) -> bool:
    """Whether the rubric gives the answer the full score of its task, and its gates let it pass: they must agree."""
    expected = tuple(
        ExpectedCall(name=name, arguments={key: tuple(values) for key, values in arguments.items()})
        for answer in answers
        for name, arguments in answer.items()
    )
    tools = tuple(Tool(name=f["name"], description="", parameters=f["parameters"]) for f in functions)
    task = msgspec.structs.replace(benchmark_task(), expected=expected, tools=tools)
    text = json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls])
    answer = Answer(text=text, messages=(), prompt_tokens=10, output_tokens=10, latency_ms=1.0)
    found = verdict_on(task, answer).evaluation
    assert found.passed_all_mandatory == (found.rubric_scores.task == 1.0)
    assert (found.overall_score > BEST_WRONG) == found.passed_all_mandatory
    return found.passed_all_mandatory


def cases_of(category: str) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]], Calls, bool]]:
    """Functions, published answer, calls of an agent, and whether they are a corruption."""
    rng = random.Random(f"{category} 1")
    for functions, answers in published(category):
        right = right_calls(answers, rng)
        yield functions, answers, right, False
        for _ in range(CORRUPTIONS_PER_TASK):
            yield functions, answers, corrupt(right, rng), True


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_rubric_passes_what_the_benchmark_passes_of_answers_and_corruptions(
    category: str, official: Checker
) -> None:
    verdicts, of_corruptions = Counter[bool](), Counter[bool]()
    for functions, answers, calls, corrupted in cases_of(category):
        theirs = official(functions, json.loads(json.dumps(calls)), answers, category)
        assert ours(functions, calls, answers) == theirs, (functions, answers, calls)
        verdicts[theirs] += 1
        of_corruptions[theirs] += corrupted
    assert min(verdicts.values()) >= 0.2 * verdicts.total(), "both verdicts must occur, or the agreement says nothing"
    assert min(of_corruptions.values()) >= 0.1 * of_corruptions.total(), "rules that forgive must be tried as well"


def test_the_cases_are_more_than_ten_thousand() -> None:
    assert sum(1 for category in CATEGORIES for _ in cases_of(category)) >= 10_000
