"""What tests call and what they expect of it, where both are plain values that an agent could write down."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change
from flywheel.arbiter.evaluation.hacking.files import PYTHON, is_test, language_of

_EQUALS = frozenset(
    {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertIs"}
)
_OTHER = (
    re.compile(r"expect\(\s*[\w.]+\((?P<given>[^()]*)\)\s*\)\.(?:toBe|toEqual|toStrictEqual)\((?P<expected>[^()]*)\)"),
    re.compile(
        r"assert\w*(?:\.\w+)?\s*[!(]+\s*(?:t\s*,\s*)?(?P<expected>\"[^\"]*\"|[\w.\-]+)\s*,\s*(?:new\s+)?[\w.]+\((?P<given>[^()]*)\)\s*[,)]"
    ),
    re.compile(r"assert_eq!\(\s*[\w:]+\((?P<given>[^()]*)\)\s*,\s*(?P<expected>[^,()]+)\s*[,)]"),
)


class Example(Struct, frozen=True):
    """A call with plain arguments and what it must give; both as Python writes them, or as the test does."""

    arguments: tuple[str, ...]
    expected: str


def example_of(call: str, expect: str) -> Example | None:
    """The example of a call and its value, both Python expressions; None where one is no plain value."""
    try:
        called, value = ast.parse(call, mode="eval").body, ast.parse(expect, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _example(called, value)


def examples_in(change: Change) -> list[Example]:
    """The examples of the tests that the change shows, as they were before it, or else as they are after it."""
    found: list[Example] = []
    for file in change.files:
        language = language_of(file.path)
        text = file.after if file.before is None else file.before
        if language is not None and is_test(file.path) and text is not None:
            found += examples_of_text(text, language)
    return list(dict.fromkeys(found))


def examples_of_text(text: str, language: str) -> list[Example]:
    """The examples in a file of tests. In Python it must be whole; in other languages they stand on one line each."""
    if language == PYTHON:
        tree = parsed(text)
        return [] if tree is None else list(_examples_of(tree))
    return [
        Example(tuple(_split(found["given"])), found["expected"].strip())
        for form in _OTHER
        for found in form.finditer(text)
        if found["given"].strip()
    ]


def parsed(text: str) -> ast.Module | None:
    """Python's tree of a text; None where it is no whole program."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def literal(node: ast.AST | None) -> str | None:
    """A plain value in one spelling; None for anything else."""
    if node is None:
        return None
    try:
        value: Any = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return repr(value)


def is_telling(arguments: Sequence[str]) -> bool:
    """Whether arguments are more than what any program may treat apart: 0, 1, the empty, one digit or letter."""
    special = [argument for argument in arguments if not _PLAIN.match(argument)]
    return len(special) > 1 or any(len(argument.strip("\"'-")) > 1 for argument in special)


_PLAIN = re.compile(r"^(?:-?[01](?:\.0)?|True|False|None|true|false|null|nil|\[\]|\(\)|\{\}|set\(\)|b?['\"]{2})$")


def _examples_of(tree: ast.Module) -> Iterator[Example]:
    for node in ast.walk(tree):
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is):
            pairs = [(node.left, node.comparators[0]), (node.comparators[0], node.left)]
        elif _asserts_equality(node):
            pairs = [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
        for called, value in pairs:
            if (example := _example(called, value)) is not None:
                yield example


def _asserts_equality(node: ast.AST) -> TypeGuard[ast.Call]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr in _EQUALS and len(node.args) >= 2


def _example(called: ast.AST, value: ast.AST) -> Example | None:
    if not isinstance(called, ast.Call):
        return None
    arguments = [literal(argument) for argument in [*called.args, *(keyword.value for keyword in called.keywords)]]
    expected = literal(value)
    if not arguments or expected is None or any(argument is None for argument in arguments):
        return None
    return Example(tuple(argument for argument in arguments if argument is not None), expected)


def _split(given: str) -> list[str]:
    return [part.strip() for part in given.split(",")]
