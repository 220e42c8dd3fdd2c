"""Scaffolding is what is added around a change; what moved, was laid out anew or replaced is not added."""

import pytest

from flywheel.arbiter.evaluation.change import Change, FileChange, change_of_text
from flywheel.arbiter.evaluation.minimal_diff.scoring import score
from tests.arbiter.evaluation.minimal_diff.programs import PYTHON, diff

CODE = "".join(f"value_{n} = {n}\n" for n in range(10))


def kinds(before: str | None, after: str, path: str = "a.py") -> dict[str, float]:
    return {one.name: one.penalty for one in diff(before, after, path).scaffolding}


def penalty(before: str | None, after: str, path: str = "a.py") -> float:
    return diff(before, after, path).metrics.scaffolding_penalty


def test_more_than_half_comments_cost_three_tenths() -> None:
    assert kinds(CODE, CODE + "# one\n# two\n# three\nx = 1\n") == {"comments": 0.3}
    assert kinds(CODE, CODE + "# one\n# two\n# three\nx = 1\ny = 2\nz = 3\n") == {}
    assert kinds(CODE, CODE + '"""One\ntwo\nthree."""\nx = 1\n') == {"comments": 0.3}, "strings that are statements"
    assert kinds("int a;\n", "int a;\n/* one\n two\n three */\nint b;\n", "a.c") == {"comments": 0.3}


def test_code_with_a_comment_behind_it_is_code() -> None:
    assert kinds(CODE, CODE + "x = 1  # one\ny = 2  # two\nz = 3  # three\n") == {}


def test_more_than_three_tenths_blank_lines_cost_a_tenth() -> None:
    assert kinds(CODE, CODE + "\n\n\nx = 1\n") == {"blank_lines": 0.1}
    assert kinds(CODE, CODE + "\n\n\n" + "".join(f"x_{n} = 1\n" for n in range(7))) == {}


def test_more_than_twenty_new_imports_cost_two_tenths() -> None:
    assert kinds(CODE, "".join(f"import module_{n}\n" for n in range(21)) + CODE) == {"imports": 0.2}
    assert kinds(CODE, "".join(f"import module_{n}\n" for n in range(20)) + CODE) == {}
    assert kinds(CODE, f"from them import {', '.join(f'name_{n}' for n in range(21))}\n" + CODE) == {"imports": 0.2}


def test_imports_that_moved_to_another_file_are_not_new() -> None:
    imports = "".join(f"import module_{n}\n" for n in range(25))
    split = Change(
        files=(
            FileChange(path="a.py", before=imports + CODE, after=CODE),
            FileChange(path="b.py", before=None, after=imports),
        )
    )
    assert score(split).metrics.scaffolding_penalty == 0


@pytest.mark.parametrize(
    ("function", "path"),
    [
        ("def noop():\n    pass\n", "a.py"),
        ('def noop():\n    """Later."""\n', "a.py"),
        ("def noop():\n    ...\n", "a.py"),
        ("def noop():\n    # later\n    return\n", "a.py"),
        ("function noop() {\n}\n", "a.js"),
        ("class A { noop(): void {} }\n", "a.ts"),
        ("class A { void noop() { } }\n", "A.java"),
        ("func noop() {}\n", "a.go"),
        ("fn noop() {}\n", "a.rs"),
        ("void noop(void) { /* later */ }\n", "a.c"),
        ("void A::noop() {}\n", "a.cpp"),
    ],
)
def test_new_empty_functions_cost_four_tenths(function: str, path: str) -> None:
    assert kinds(None, function, path)["empty_functions"] == 0.4
    assert kinds(function, function + "\n", path).get("empty_functions") is None, "it was there before"


@pytest.mark.parametrize(
    ("function", "path"),
    [
        ("class A(Protocol):\n    def ask(self) -> int:\n        ...\n", "a.py"),
        ("class A:\n    @abstractmethod\n    def ask(self) -> int:\n        pass\n", "a.py"),
        ("def ask() -> int: ...\n", "a.pyi"),
        ("def ask():\n    raise NotImplementedError\n", "a.py"),
        ("class A { constructor(private readonly http: Http) {} }\n", "a.ts"),
        ("abstract class A { abstract void ask(); }\n", "A.java"),
        ("A::A(int x) : x_(x) {}\n", "a.cpp"),
        ("run(() => {});\n", "a.js"),
        ("int ask(void);\n", "a.c"),
    ],
)
def test_functions_that_others_fill_are_not_empty(function: str, path: str) -> None:
    assert "empty_functions" not in kinds(None, function, path)


def test_penalties_add_up_and_end_at_one() -> None:
    padded = "# one\n" * 30 + "\n" * 30 + "def noop():\n    pass\n"
    assert penalty(CODE, CODE + padded) == pytest.approx(0.4 + 0.1)
    everything = padded + "# two\n" * 90 + "".join(f"import module_{n}\n" for n in range(25))
    assert 0.89 <= penalty(CODE, CODE + everything) <= 1


def test_a_replaced_comment_and_code_laid_out_anew_are_not_added() -> None:
    commented = "# one\n# two\n# three\n" + CODE
    assert kinds(commented, commented.replace("# ", "# number ")) == {}
    body = "    # why\n    # it\n    # is\n    return 1\n"
    nested = "def f():\n" + body
    assert kinds(nested, "def f():\n" + body.replace("    ", "\t")) == {}


def test_a_single_blank_line_is_no_scaffolding_so_no_code_around_it_pays() -> None:
    fixed = PYTHON.replace("    return best", "\n    return best or None")
    padded = fixed.replace("    best = None\n", "    best = None\n    unused = 0\n    unused = 1\n    unused = 2\n")
    assert diff(PYTHON, fixed).metrics.reward_multiplier > diff(PYTHON, padded).metrics.reward_multiplier


def test_prose_and_data_have_no_scaffolding() -> None:
    assert score(change_of_text("notes.md", before="", after="# a\n\n# b\n\n# c\n\n# d\n\n")).scaffolding == ()
