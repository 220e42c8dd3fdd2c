"""The checker's graded parts."""

import json

import pytest

from flywheel.arbiter.evaluation.function_calls import Rejection, check, parse_calls
from flywheel.tasks.source import ExpectedCall
from tests.fakes import benchmark_task

TASK = benchmark_task()
RIGHT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
TWO = (
    ExpectedCall(name="add", arguments={"a": (1,), "b": (2,)}),
    ExpectedCall(name="add", arguments={"a": (3,), "b": (4,)}),
)
OTHER = '{"name": "add", "arguments": {"a": 3, "b": 4}}'


def graded(text: str, expected: tuple[ExpectedCall, ...] = TASK.expected) -> tuple[float, float, float, bool]:
    found = check(expected, TASK.tools, text)
    return found.format, found.tool, found.arguments, found.exact


@pytest.mark.parametrize("text", [RIGHT, f"[{RIGHT}]", f"\n {RIGHT} \n", json.dumps(json.loads(RIGHT), indent=2)])
def test_an_answer_as_asked_is_exact(text: str) -> None:
    assert graded(text) == (1, 1, 1, True)
    assert check(TASK.expected, TASK.tools, text).reason == "as expected"


@pytest.mark.parametrize(
    "text", [f"Sure: {RIGHT}", f"```json\n{RIGHT}\n```", f'{{"tool_calls": [{RIGHT}]}}', RIGHT[:-1] + ', "id": "1"}']
)
def test_a_call_inside_other_text_is_found_and_flagged(text: str) -> None:
    assert graded(text) == (0.5, 1, 1, False)


@pytest.mark.parametrize(
    "text", ["", "I cannot.", "{", '{"name": "add"}', '{"name": "add", "arguments": "a=1"}', "[]x"]
)
def test_text_without_a_call_is_rejected_with_a_reason(text: str) -> None:
    found = parse_calls(text)
    assert isinstance(found, Rejection)
    assert graded(text) == (0, 0, 0, False)
    assert check(TASK.expected, TASK.tools, text).reason == found.reason


def test_hostile_nesting_is_rejected_in_reasonable_time() -> None:
    assert isinstance(parse_calls('{"a":' * 20_000), Rejection)
    assert isinstance(parse_calls("[" * 100_000), Rejection)
    assert isinstance(parse_calls('{"name": "add", "arguments": {"a": NaN, "b": Infinity}}'), Rejection)


@pytest.mark.parametrize(
    ("arguments", "share", "reason"),
    [
        ({"a": 1, "b": 3}, 1 / 2, "add: argument 'b': expected one of [2], got 3"),
        ({"a": 1}, 1 / 2, "add: argument 'b' is missing"),
        ({"a": 1, "b": 2, "c": 3}, 2 / 3, "add: argument 'c' is not expected"),
        ({"a": 1, "b": "2"}, 1 / 2, "add: argument 'b': expected type integer, got str '2'"),
        ({"a": True, "b": 2}, 1 / 2, "add: argument 'a': expected type integer, got bool True"),
    ],
)
def test_wrong_arguments_keep_the_share_of_right_ones_and_say_what_is_wrong(
    arguments: dict[str, object], share: float, reason: str
) -> None:
    found = check(TASK.expected, TASK.tools, json.dumps({"name": "add", "arguments": arguments}))
    assert (found.format, found.tool, found.exact) == (1, 1, False)
    assert found.arguments == pytest.approx(share)
    assert found.reason == reason


def test_strings_are_compared_without_case_spaces_and_punctuation() -> None:
    assert graded('{"name": "add", "arguments": {"a": 1, "b": 2, "note": "S.U M"}}')[3]
    assert not graded('{"name": "add", "arguments": {"a": 1, "b": 2, "note": "difference"}}')[3]


def test_a_wrong_function_earns_nothing_but_format() -> None:
    assert graded(RIGHT.replace("add", "noop")) == (1, 0, 0, False)


@pytest.mark.parametrize("text", [f"{RIGHT}\n{OTHER}", f"{OTHER}\n{RIGHT}", f"[{OTHER}, {RIGHT}]"])
def test_parallel_calls_are_right_in_any_order(text: str) -> None:
    assert graded(text, TWO) == (1, 1, 1, True)


def test_a_missing_and_a_superfluous_call_cost_their_share() -> None:
    assert graded(RIGHT, TWO) == (1, 0.5, 0.5, False)
    superfluous = check(TASK.expected, TASK.tools, f"{RIGHT}\n{OTHER}")
    assert (superfluous.tool, superfluous.arguments, superfluous.exact) == (0.5, 0.5, False)
    assert superfluous.right == (True, False)
    assert superfluous.reason == "2 calls where 1 are right"


def test_where_no_tool_fits_no_call_is_right() -> None:
    assert graded("No function fits.", ()) == (1, 1, 1, True)
    assert graded("[]", ()) == (1, 1, 1, True)
    assert graded(RIGHT, ()) == (1, 0, 0, False)
