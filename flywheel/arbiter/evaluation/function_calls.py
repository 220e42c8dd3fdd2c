"""Checks an answer's function calls against the published ones, in graded parts."""

from collections.abc import Sequence

from msgspec import Struct

from flywheel.arbiter.evaluation.argument_values import argument_problem
from flywheel.arbiter.evaluation.parsing import Call, ParsedCalls, Rejection, parse_calls
from flywheel.tasks.source import ExpectedCall, Tool

__all__ = ["Call", "CallCheck", "ParsedCalls", "Rejection", "check", "parse_calls"]


class CallCheck(Struct, frozen=True, kw_only=True):
    """How far an answer's calls are right. All shares are 0–1.

    Attributes:
        format: 1 strict, 0.5 calls found inside other text, 0 no call where one was expected.
        tool: matched function names / max(expected calls, calls made).
        arguments: right arguments of the matched calls, averaged over max(expected calls, calls made).
        exact: format, tool and arguments are all 1: the verdict of the benchmark, on strictly written answers.
        reason: what is wrong first, in words; "as expected" where nothing is.
        calls: the calls as read.
        right: for each call whether it answers one of the expected ones in full.
    """

    format: float
    tool: float
    arguments: float
    exact: bool
    reason: str
    calls: tuple[Call, ...] = ()
    right: tuple[bool, ...] = ()


class _Match(Struct, frozen=True, kw_only=True):
    call: int
    right_fraction: float
    problem: str | None


def check(expected: Sequence[ExpectedCall], tools: Sequence[Tool], text: str) -> CallCheck:
    """Check an answer.

    Args:
        expected: the calls that answer the task; empty where no tool fits and no call is right (irrelevance).
        tools: what was offered, with JSON schema parameters.
        text: the answer as written.
    """
    parsed = parse_calls(text)
    if not expected:
        return _check_abstention(parsed)
    if isinstance(parsed, Rejection):
        return CallCheck(format=0.0, tool=0.0, arguments=0.0, exact=False, reason=parsed.reason)
    matches = _matches(expected, tools, parsed.calls)
    width = max(len(expected), len(parsed.calls))
    tool = sum(match is not None for match in matches) / width
    right = {match.call for match in matches if match is not None and match.problem is None}
    arguments = sum(match.right_fraction for match in matches if match is not None) / width
    return CallCheck(
        format=1.0 if parsed.strict else 0.5,
        tool=tool,
        arguments=arguments,
        exact=parsed.strict and tool == 1.0 and arguments == 1.0,
        reason=_reason(expected, matches, parsed),
        calls=parsed.calls,
        right=tuple(index in right for index in range(len(parsed.calls))),
    )


def _check_abstention(parsed: ParsedCalls | Rejection) -> CallCheck:
    calls = parsed.calls if isinstance(parsed, ParsedCalls) else ()
    if not calls:
        return CallCheck(format=1.0, tool=1.0, arguments=1.0, exact=True, reason="as expected: no call")
    names = ", ".join(call.name for call in calls)
    return CallCheck(
        format=1.0 if isinstance(parsed, ParsedCalls) and parsed.strict else 0.5,
        tool=0.0,
        arguments=0.0,
        exact=False,
        reason=f"no function fits, but the answer calls {names}",
        calls=calls,
        right=(False,) * len(calls),
    )


def _matches(
    expected: Sequence[ExpectedCall], tools: Sequence[Tool], calls: Sequence[Call]
) -> tuple[_Match | None, ...]:
    """For each expected call how well the call paired with it does; None where no call is left with its name.

    Right calls are paired first, each with the first expected call it answers: the benchmark's rule for parallel
    calls. What is left is paired by name, the better one first, for partial credit only.
    """
    schemas = {tool.name: tool for tool in tools}
    graded = [
        [_grade(want, schemas.get(want.name), call, index) for index, call in enumerate(calls)] for want in expected
    ]
    found: list[_Match | None] = [None] * len(expected)
    free = set(range(len(calls)))
    for only_right in (True, False):
        for row, grades in enumerate(graded):
            choices = [
                grade
                for grade in grades
                if grade is not None and grade.call in free and (grade.problem is None or not only_right)
            ]
            if found[row] is None and choices:
                chosen = max(choices, key=lambda grade: grade.right_fraction)  # the first of equals
                found[row] = chosen
                free.remove(chosen.call)
    return tuple(found)


def _grade(want: ExpectedCall, tool: Tool | None, call: Call, index: int) -> _Match | None:
    if call.name != want.name or tool is None:
        return None
    needed = {name for name, alternatives in want.arguments.items() if "" not in alternatives}
    needed.update(tool.parameters.get("required", ()))
    problems = [f"argument {name!r} is missing" for name in sorted(needed - call.arguments.keys())]
    properties = tool.parameters.get("properties", {})
    for name, value in call.arguments.items():
        if name not in properties or name not in want.arguments:
            problems.append(f"argument {name!r} is not expected")
        elif problem := argument_problem(properties[name], value, want.arguments[name]):
            problems.append(f"argument {name!r}: {problem}")
    total = len(needed | call.arguments.keys())
    right_fraction = (total - len(problems)) / total if total else 1.0
    return _Match(call=index, right_fraction=right_fraction, problem=problems[0] if problems else None)


def _reason(expected: Sequence[ExpectedCall], matches: Sequence[_Match | None], parsed: ParsedCalls) -> str:
    called = ", ".join(call.name for call in parsed.calls) or "nothing"
    for want, match in zip(expected, matches, strict=True):
        if match is None:
            return f"{want.name} was expected, the answer calls {called}"
        if match.problem is not None:
            return f"{want.name}: {match.problem}"
    if len(parsed.calls) > len(expected):
        return f"{len(parsed.calls)} calls where {len(expected)} are right"
    return "as expected" if parsed.strict else "right calls, but inside other text"
