"""Similarity is of trees: what moved, changed, was renamed and was rewritten is told apart, in every language."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.minimal_diff.renames import Rename
from flywheel.arbiter.evaluation.minimal_diff.scoring import score
from flywheel.arbiter.evaluation.patches import change_of_patch
from flywheel.languages import BY_NAME, LanguageName
from tests.arbiter.evaluation.minimal_diff.programs import OTHER_BODY, PYTHON, diff, multiplier, similarity
from tests.pool.anonymization.code.snippets import SNIPPETS
from tests.pool.anonymization.code.test_languages import OWN

FUNCTION = PYTHON[PYTHON.index("def total_of") : PYTHON.index("def widest")]
WIDEST = PYTHON[PYTHON.index("def widest") : PYTHON.index("class Basket")]
BASKET = PYTHON[PYTHON.index("class Basket") :]


def path_of(language: LanguageName) -> str:
    return f"src/file{BY_NAME[language].suffixes[0]}"


def own_name_of(language: LanguageName) -> str:
    """The name of the code's own that stands in it most often."""
    return max(OWN[language].split(), key=lambda name: len(re.findall(rf"\b{name}\b", SNIPPETS[language])))


def test_what_is_not_changed_is_the_same() -> None:
    found = score(Change(files=()))
    assert (found.metrics.ast_similarity, found.metrics.reward_multiplier, found.metrics.file_touch_count) == (1, 1, 0)
    assert found.losses == ()


@pytest.mark.parametrize("language", SNIPPETS)
def test_every_language_is_compared_by_its_tree(language: LanguageName) -> None:
    source = SNIPPETS[language]
    edited = source.replace("1", "7", 1) if "1" in source else source.replace("3", "7", 1)
    found = diff(source, edited, path_of(language))
    assert found.files[0].compared == language
    assert 0.97 < found.metrics.ast_similarity < 1
    assert (found.added_lines, found.removed_lines, found.files[0].new_syntax_errors) == (1, 1, 0)


@pytest.mark.parametrize("language", SNIPPETS)
def test_a_new_layout_is_the_same_tree_in_every_language(language: LanguageName) -> None:
    source = SNIPPETS[language]
    laid_out = "\n".join("  " * (len(line) - len(line.lstrip())) + line.lstrip() for line in source.split("\n"))
    found = diff(source, laid_out, path_of(language))
    assert found.metrics.ast_similarity == 1.0
    assert found.added_lines > 3


def test_wrapped_lines_and_other_quotes_are_layout() -> None:
    laid_out = PYTHON.replace(
        "def add(self, item, count=1):", "def add(\n        self,\n        item,\n        count=1,\n    ):"
    )
    assert similarity(PYTHON, laid_out) == 1.0
    assert similarity("a = 'x'\n", 'a = "x"\n') == 1.0
    assert similarity("a = 'x'\n", 'a = f"x"\n') < 1.0


@pytest.mark.parametrize("language", SNIPPETS)
def test_a_consistent_rename_is_one_change_in_every_language(language: LanguageName) -> None:
    source = SNIPPETS[language]
    name = own_name_of(language)
    renamed = re.sub(rf"\b{name}\b", "somethingElse", source)
    found = diff(source, renamed, path_of(language))
    assert found.metrics.ast_similarity > 0.97
    assert [(one.old, one.new) for one in found.renames] == [(name, "somethingElse")]


def test_a_rename_costs_the_same_however_often_the_name_stands() -> None:
    renamed = diff(PYTHON, re.sub(r"\btotal\b", "amount", PYTHON))
    assert renamed.renames == (Rename("total", "amount", 5),)
    once = diff(PYTHON, PYTHON.replace("best = None", "best = shapes"))
    assert renamed.metrics.ast_similarity == pytest.approx(once.metrics.ast_similarity, abs=0.005)


def test_a_name_that_is_replaced_at_some_places_is_not_renamed() -> None:
    some = PYTHON.replace("total += ", "amount += ").replace("return round(total, 2)", "return round(amount, 2)")
    found = diff(PYTHON, some)
    assert found.renames == ()
    assert found.metrics.ast_similarity < similarity(PYTHON, re.sub(r"\btotal\b", "amount", PYTHON)) + 0.005


def test_two_names_that_become_one_are_not_both_renamed() -> None:
    merged = FUNCTION.replace("item", "total")
    assert [one.old for one in diff(FUNCTION, merged).renames if one.new == "total"] == []


def test_a_rewritten_body_is_not_similar_though_it_does_the_same() -> None:
    assert similarity(FUNCTION, OTHER_BODY) < 0.5
    assert similarity(FUNCTION, re.sub(r"\b(total|item)\b", r"the_\1", FUNCTION)) > 0.9


def test_the_same_node_types_in_another_body_are_not_similar() -> None:
    """SPEC section 14: a bag of node types calls these two equal."""
    one = "def f(rows):\n    kept = []\n    for row in rows:\n        kept.append(row.name)\n    return kept\n"
    other = "def f(text):\n    seen = []\n    for letter in text:\n        log.warning(letter.code)\n    return text\n"
    assert similarity(one, other) < 0.7
    sums = "def f(a, b, c):\n    x = a + b\n    y = x * c\n    z = y - a\n    return z\n"
    others = "def f(p, q, r):\n    k = q - SIZE\n    m = LOW / p\n    n = r % HIGH\n    return k\n"
    assert similarity(sums, others) < 0.5


def test_moved_code_is_less_like_what_was_than_untouched_code_and_more_than_rewritten_code() -> None:
    moved = PYTHON.replace(FUNCTION, "") + "\n\n" + FUNCTION
    rewritten = PYTHON.replace(FUNCTION, OTHER_BODY + "\n\n")
    found = diff(PYTHON, moved)
    assert found.files[0].moved > 0
    assert 1.0 > found.metrics.ast_similarity > similarity(PYTHON, rewritten)
    assert found.metrics.ast_similarity > 0.9


def test_what_moved_and_changed_is_recognized() -> None:
    changed = FUNCTION.replace("item.price > 0", "item.price >= 0")
    moved = PYTHON.replace(FUNCTION, "") + "\n\n" + changed
    assert (
        similarity(PYTHON, PYTHON.replace(FUNCTION, ""))
        < similarity(PYTHON, moved)
        < similarity(PYTHON, PYTHON.replace(FUNCTION, changed))
    )
    assert similarity(PYTHON, moved) > 0.9


def test_code_that_moved_to_another_file_is_recognized() -> None:
    rest = PYTHON.replace(FUNCTION, "")
    both = Change(
        files=(
            FileChange(path="a.py", before=PYTHON, after=rest),
            FileChange(path="b.py", before=None, after=FUNCTION),
        )
    )
    assert score(both).metrics.ast_similarity > 0.9
    assert score(both).metrics.file_touch_count == 2
    assert score(Change(files=both.files[:1])).metrics.ast_similarity < 0.9


def test_a_body_within_a_new_block_stays_recognized() -> None:
    lines = FUNCTION.rstrip().split("\n")
    wrapped = "\n".join([*lines[:2], "    if items:", *("    " + line for line in lines[2:])]) + "\n"
    assert 0.75 < similarity(FUNCTION, wrapped) < 0.95
    assert similarity(wrapped, FUNCTION) == pytest.approx(similarity(FUNCTION, wrapped), abs=0.05)


def test_an_argument_within_a_new_call_stays_recognized() -> None:
    one, other = "x = load(path, size + 1)\n", "x = check(load(path, size + 1))\n"
    assert 0.75 < similarity(one, other) < 1
    assert similarity(other, one) == pytest.approx(similarity(one, other), abs=0.05)


def test_operators_and_literals_count() -> None:
    assert similarity("x = a + b\n", "x = a - b\n") < 1.0
    assert similarity("x = f(1)\n", "x = f(2)\n") < 1.0
    assert similarity("x = 'one\\ttwo'\n", "x = 'one\\tthree'\n") < 1.0


@pytest.mark.parametrize(
    ("broken", "path", "before"),
    [
        (PYTHON.replace("if item.price > 0:", "if item.price > 0"), "a.py", PYTHON),
        (PYTHON.replace("return best", "return (best"), "a.py", PYTHON),
        (SNIPPETS["java"].replace("{ return", "{ return return", 1), "A.java", SNIPPETS["java"]),
        (SNIPPETS["typescript"].replace("}", "", 1), "a.ts", SNIPPETS["typescript"]),
        (SNIPPETS["go"] + "\nfunc broken( {\n", "a.go", SNIPPETS["go"]),
    ],
)
def test_a_change_that_breaks_the_syntax_is_like_nothing_before(broken: str, path: str, before: str) -> None:
    found = diff(before, broken, path)
    assert found.files[0].new_syntax_errors > 0
    assert found.metrics.ast_similarity == 0.0


def test_a_change_of_code_that_could_not_be_read_before_is_still_compared() -> None:
    broken = PYTHON.replace("return best", "return (best")
    assert similarity(broken, broken.replace("RATE = 0.25", "RATE = 0.5")) > 0.97
    assert similarity(broken, PYTHON) > 0.5


def test_a_comment_is_a_change() -> None:
    assert similarity(PYTHON, PYTHON.replace("    total = 0", "    # the sum\n    total = 0")) < 1.0


def test_what_no_grammar_reads_is_compared_by_lines_and_says_so() -> None:
    text = "# Title\n\nOne sentence here.\nAnother one there.\n"
    found = diff(text, text.replace("Another", "A second"), "README.md")
    assert (found.files[0].compared, found.metrics.scaffolding_penalty) == ("lines", 0)
    assert 0.3 < found.metrics.ast_similarity < 0.8
    assert similarity(text, text.replace("\n", "\n\n"), "README.md") == 1.0
    assert similarity('{"a": 1}\n', '{"b": 2}\n', "x.json") == 0.0


def test_a_binary_file_is_touched_and_nothing_else_is_said_of_it() -> None:
    picture = FileChange(path="a.png", before="", after="", binary=True)
    found = score(Change(files=(picture,)))
    assert (found.files[0].compared, found.files[0].similarity) == ("binary", None)
    assert (found.metrics.file_touch_count, found.metrics.ast_similarity) == (1, 1.0)


def test_new_and_deleted_files_are_like_nothing() -> None:
    assert similarity(None, PYTHON) == 0.0
    assert similarity(PYTHON, None) == 0.0
    assert diff(PYTHON, None).metrics.line_change_ratio == 1.0


def test_a_file_that_was_only_renamed_is_the_same() -> None:
    found = score(Change(files=(FileChange(path="b.py", before=PYTHON, after=PYTHON, old_path="a.py"),)))
    assert (found.metrics.ast_similarity, found.metrics.reward_multiplier, found.added_lines) == (1.0, 1.0, 0)


def test_a_diff_alone_is_scored_by_its_hunks_and_says_so() -> None:
    patch = (
        "--- a/x.py\n+++ b/x.py\n@@ -40,6 +40,6 @@ class Basket:\n"
        '         :param count: how many of it there are\n         """\n         for _ in range(count):\n'
        "-            self.items.append(item)\n+            self.items.append(item.copy())\n"
        "         return len(self.items)\n \n"
    )
    found = score(change_of_patch(patch))
    assert found.partial
    assert 0.8 < found.metrics.ast_similarity < 1
    assert found.metrics.scaffolding_penalty == 0, "the docstring's end is not the beginning of another one"


def test_hunks_that_begin_within_a_branch_or_a_docstring_are_read_as_code() -> None:
    branch = "@@ -9,4 +9,4 @@\n     elif value:\n-        return 1\n+        return 2\n     return 3\n \n"
    docstring = (
        '@@ -40,5 +40,6 @@\n     What it gives, and why: see there.\n     """\n     found = find(value, *others)\n'
        "+    # it may be none\n     if found:\n         return found.first(value)\n"
    )
    for hunk, leaves in ((branch, 6), (docstring, 1 + 6 + 2 + 4)):
        found = score(change_of_patch("--- a/x.py\n+++ b/x.py\n" + hunk))
        assert 0.8 < found.metrics.ast_similarity < 1
        assert found.files[0].leaves == 2 * leaves + (hunk is docstring)


def test_names_that_only_stand_where_others_stood_are_not_renamed() -> None:
    one = "from shop import (\n    first,\n    second,\n)\n\nfirst(second)\nfirst()\n"
    other = "from shop import (\n    third,\n    fourth,\n)\n\nif ready:\n    third([fourth] * 2)\n"
    assert diff(one, other).renames == ()


def test_losses_say_in_numbers_what_lowered_the_multiplier() -> None:
    found = diff(PYTHON, PYTHON.replace(FUNCTION, OTHER_BODY) + "# remark\n" * 12)
    assert [loss.reason.split()[0] for loss in found.losses] == ["similarity", "scaffolding:", "line"]
    assert sum(loss.by for loss in found.losses) == pytest.approx(1 - found.metrics.reward_multiplier)
    assert "12 of 15 added lines of code are comments" in found.losses[1].reason


def test_a_rewrite_of_two_thousand_lines_is_worth_less_than_the_fix() -> None:
    fixed = PYTHON.replace("item.price > 0", "item.price >= 0")
    rewrite = (
        "".join(f"def helper_{n}(x):\n    value = x + {n}\n    return value\n\n\n" for n in range(400)) + OTHER_BODY
    )
    assert multiplier(PYTHON, rewrite) == pytest.approx(0.1, abs=0.05)
    assert multiplier(PYTHON, fixed) > 0.95


def test_code_of_any_depth_and_size_is_compared() -> None:
    deep = "x = " + "(" * 3_000 + "1" + ")" * 3_000 + "\n"
    chain = "x = " + " + ".join(f"name{n}" for n in range(3_000)) + "\n"
    assert similarity(deep, deep.replace("1", "2")) >= 0.5
    assert similarity(chain, chain.replace("name7 ", "other ")) > 0.9
    assert similarity("x = 1\n" * 1_000, "y = 2\n" * 1_000) < 0.8
    repeated = "    x = call(a, b)\n" * 1_000
    assert similarity(f"def f():\n{repeated}", f"class G:\n    pass\n\n\nif ready:\n{repeated}") > 0.7
    assert diff(f"x = '{'a' * 1_000_000}'\n", "x = 2\n").files[0].compared == "lines"


def test_any_bytes_are_compared() -> None:
    assert 0 <= similarity("\ud800 = 1\n", "\x00\ufeff\n") <= 1


LINES = st.lists(st.sampled_from(PYTHON.split("\n")), max_size=12).map("\n".join)


@settings(max_examples=150)
@given(before=LINES, after=LINES, path=st.sampled_from(["a.py", "a.md", "a.c"]))
def test_whatever_is_compared_all_numbers_are_within_their_bounds(before: str, after: str, path: str) -> None:
    found = diff(before, after, path)
    metrics = found.metrics
    assert 0 <= metrics.ast_similarity <= 1
    assert 0.1 <= metrics.reward_multiplier <= 1
    assert 0 <= metrics.scaffolding_penalty <= 1
    for file in found.files:
        assert 0 <= file.kept + file.moved <= file.leaves, "no leaf is matched twice"
    assert diff(before, before, path).metrics.ast_similarity == 1


@settings(max_examples=60)
@given(st.data())
def test_the_less_of_a_program_is_replaced_the_more_similar_it_is(data: st.DataObject) -> None:
    lines = PYTHON.split("\n")
    rows = data.draw(
        st.lists(st.sampled_from([at for at, line in enumerate(lines) if " = " in line]), min_size=2, unique=True)
    )
    some, all_of_them = list(lines), list(lines)
    for count, row in enumerate(rows):
        indent = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
        all_of_them[row] = f"{indent}other_{row}(call_{row})"
        if count < len(rows) // 2:
            some[row] = all_of_them[row]
    assert similarity(PYTHON, "\n".join(some)) > similarity(PYTHON, "\n".join(all_of_them))
