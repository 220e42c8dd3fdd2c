"""Correct patches score above themselves bloated; and the fast matching ranks changes as the exact distance does."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.minimal_diff.scoring import score
from flywheel.languages import BY_NAME
from tests.arbiter.evaluation.minimal_diff.bloat import BLOATERS, bloated_change
from tests.arbiter.evaluation.minimal_diff.peers import exact_similarity, node_type_jaccard
from tests.arbiter.evaluation.minimal_diff.programs import OTHER_BODY, PYTHON, similarity
from tests.arbiter.evaluation.minimal_diff.samples import DIFFS, graded_pairs, samples

FIX = PYTHON.replace("item.price > 0", "item.price >= 0")
ENOUGH = 0.95
CORRELATION = 0.9


@pytest.mark.parametrize("kind", BLOATERS)
@pytest.mark.parametrize("seed", range(5))
def test_every_bloated_fix_of_a_small_file_scores_below_the_fix(kind: str, seed: int) -> None:
    fix = Change(files=(FileChange(path="shop.py", before=PYTHON, after=FIX),))
    bloated = bloated_change(kind, fix, seed=seed)
    assert bloated != fix
    assert score(fix).metrics.reward_multiplier > score(bloated).metrics.reward_multiplier


@pytest.mark.parametrize("kind", BLOATERS)
@pytest.mark.parametrize("seed", range(5))
def test_a_bloated_fix_does_what_the_fix_does(kind: str, seed: int) -> None:
    fix = Change(files=(FileChange(path="shop.py", before=PYTHON, after=FIX),))
    bloated = bloated_change(kind, fix, seed=seed).files[0].after or ""
    assert bloated not in {"", FIX}
    assert done_by(bloated) == done_by(FIX)


def test_what_programs_do_is_told_apart_where_it_differs() -> None:
    assert done_by(FIX) == (24.0, 24.0, 9, [2, 5, True, False])
    for broken in (
        FIX.replace("price * item", "price + item"),
        FIX.replace(">=", "<="),
        FIX.replace("> best", "< best"),
    ):
        assert done_by(broken) != done_by(FIX)


def done_by(program: str) -> tuple[object, ...]:
    """What the small file's functions and its class come to."""
    names: dict[str, Any] = {}
    exec(compile(program, "shop.py", "exec"), names)
    items = [SimpleNamespace(price=price, count=3) for price in (0, 4, 4)]
    totals = names["total_of"](items, 0), names["total_of"]([*items, SimpleNamespace(price=8, count=1)], 0.25)
    widest = names["widest"]([SimpleNamespace(width=width) for width in (4, 9, 2)]).width
    basket = names["Basket"](SimpleNamespace(limit=20))
    empty = names["Basket"](SimpleNamespace(limit=20))
    return *totals, widest, [basket.add("a", 2), basket.add("b", 3), basket.is_full(), empty.is_full()]


@pytest.mark.skipif(not DIFFS.is_dir(), reason=f"the real patches are not in {DIFFS}")
def test_correct_patches_score_above_themselves_bloated_in_all_ways() -> None:
    above: Counter[tuple[str, str]] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for number, sample in enumerate(samples()):
        correct = score(sample.change).metrics.reward_multiplier
        for kind in BLOATERS:
            bloated = score(bloated_change(kind, sample.change, seed=number)).metrics.reward_multiplier
            pairs[kind, sample.source] += 1
            above[kind, sample.source] += correct > bloated
    assert sum(pairs.values()) >= 5 * 124
    for key, count in pairs.items():
        assert above[key] >= ENOUGH * count, f"{above[key]} of {count} pairs of {key}"


def test_the_matching_ranks_changes_as_the_exact_edit_distance_does() -> None:
    python = BY_NAME["python"]
    pairs = graded_pairs(seed=1, largest=260)
    exact = [exact_similarity(before, after, python) for before, after in pairs]
    ours = [similarity(before, after) for before, after in pairs]
    assert len(pairs) >= 40
    assert spearmanr(ours, exact).statistic > CORRELATION


def test_a_bag_of_node_types_does_not_see_what_the_tree_shows() -> None:
    python = BY_NAME["python"]
    rewritten = PYTHON.replace(PYTHON[PYTHON.index("def total_of") : PYTHON.index("def widest")], OTHER_BODY + "\n\n")
    swapped = PYTHON.replace("shape.width > best.width", "best.width > shape.width")
    assert node_type_jaccard(PYTHON, swapped, python) == 1.0
    assert similarity(PYTHON, swapped) < 1.0
    assert similarity(PYTHON, rewritten) < node_type_jaccard(PYTHON, rewritten, python)
