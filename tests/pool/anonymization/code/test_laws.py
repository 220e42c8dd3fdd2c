"""Whatever the code: the same tree, the same results, once is enough, and nothing around names is touched."""

import contextlib
import io
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.languages import LanguageName, parser
from tests.pool.anonymization.code.snippets import PYTHON, SNIPPETS, renamed, renamed_texts

LANGUAGE = st.sampled_from(sorted(SNIPPETS))
NAMES = ["user_name", "grandTotal", "Basket", "items", "self", "json", "print", "var1", "_private", "x", "total_due"]
PROGRAM_LINES = [
    "{a} = 1", "{a}, {b} = 2, 3", "def {a}({b}=1): return {b}", "def {a}(*{b}): return len({b})",
    "class {a}:\n    {b} = 1\n    def {c}(self, {a}=2): return self.{b}", "for {a} in range(2): {b} = {a}",
    "{a} = [{b} for {b} in range(3)]", "{a} = lambda {b}: {b}", "{a}.{b} = {c}", "print(f'{{{a}}} {{{b}=}}')",
    "{a}({b}=3)", "from {a} import {b}", "import {a}", "{a} = dict({b}=1)", "with {a} as {b}: {c}",
    "try: {a}\nexcept {b} as {c}: pass", "@{a}\ndef {b}({c}): ...", "global {a}", "if ({a} := {b}): pass",
    "class {a}({b}): {c}: int = 1", "{a}(**{b})", "{a}.{b}.{c}()", "def test_{a}({b}): ...",
]  # fmt: skip
LINE = st.builds(
    lambda line, a, b, c: line.format(a=a, b=b, c=c),
    st.sampled_from(PROGRAM_LINES), st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(NAMES),
)  # fmt: skip
PROGRAM = st.lists(LINE, min_size=1, max_size=8).map("\n".join)


def shape(source: str, language: LanguageName) -> list[tuple[str, int]]:
    """The types of all nodes with their number of children, in the tree's order."""
    cursor = [parser(language).parse(source.encode()).root_node]
    types = []
    while cursor:
        node = cursor.pop()
        types.append((node.type, node.child_count))
        cursor += reversed(node.children)
    return types


def without_names(source: str) -> str:
    return re.sub(r"[#$\w]+", "_", source)


def output_of(source: str) -> str:
    said = io.StringIO()
    scope: dict[str, Any] = {"__name__": "program"}
    with contextlib.redirect_stdout(said):
        exec(compile(source, "program", "exec"), scope)
    return said.getvalue()


@pytest.mark.parametrize("language", SNIPPETS)
def test_the_tree_keeps_its_shape(language: LanguageName) -> None:
    source = SNIPPETS[language]
    assert not parser(language).parse(source.encode()).root_node.has_error
    assert shape(renamed(source, language), language) == shape(source, language)


def test_a_renamed_program_gives_the_same_results() -> None:
    clean = renamed(PYTHON, "python")
    assert clean != PYTHON
    assert output_of(clean) == output_of(PYTHON)
    assert "ann" in output_of(clean)


@pytest.mark.parametrize("structure_only", [False, True])
@pytest.mark.parametrize("language", SNIPPETS)
def test_a_second_pass_changes_nothing(language: LanguageName, structure_only: bool) -> None:
    once = renamed(SNIPPETS[language], language, structure_only=structure_only)
    assert renamed(once, language, structure_only=structure_only) == once


@settings(max_examples=150)
@given(PROGRAM)
def test_programs_keep_their_shape_and_a_second_pass_changes_nothing(source: str) -> None:
    clean = renamed(source, "python")
    assert without_names(clean) == without_names(source)
    if not parser("python").parse(source.encode()).root_node.has_error:
        assert shape(clean, "python") == shape(source, "python")
    assert renamed(clean, "python") == clean


@settings(max_examples=100)
@given(LANGUAGE, st.integers(0, 1_500), st.integers(0, 1_500), st.text(max_size=8))
def test_half_a_snippet_is_not_made_worse(language: LanguageName, first: int, second: int, typed: str) -> None:
    source = SNIPPETS[language]
    broken = source[:first] + typed.replace("`", "") + source[second:]
    clean = renamed(broken, language)
    assert without_names(clean) == without_names(broken)


@settings(max_examples=100)
@given(st.text())
def test_any_text_survives(text: str) -> None:
    (clean,) = renamed_texts(text)
    assert without_names(clean) == without_names(text)


def test_hostile_code_takes_linear_time() -> None:
    started = time.process_time()
    for hostile in (
        "(" * 50_000,
        "a" + ".b" * 20_000,
        "{" * 50_000,
        "f(" + "a=1," * 10_000,
        "```python\nx=1\n" * 2_000,
    ):
        for language in ("python", "typescript", "rust"):
            renamed(hostile, language)
    assert time.process_time() - started < 60
