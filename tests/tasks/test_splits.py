"""The split is a pure function of a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.tasks.source import Split
from flywheel.tasks.splits import split_of


def test_the_split_of_a_name_never_changes() -> None:
    """Figures of different releases compare only if these stay: a change here makes held-out tasks training tasks."""
    known = {"math.factorial": Split.TRAIN, "calculate_triangle_area": Split.TRAIN, "get_weather": Split.TRAIN}
    found = {name: split_of(name, heldout_fraction=0.27, validation_fraction=0.08) for name in known}
    assert found == known


@given(st.text(), st.floats(0.01, 0.4), st.floats(0.01, 0.4))
def test_a_larger_held_out_share_only_adds_names_to_it(name: str, small: float, more: float) -> None:
    before = split_of(name, heldout_fraction=small, validation_fraction=0.1)
    after = split_of(name, heldout_fraction=small + more, validation_fraction=0.1)
    assert before is not Split.HELDOUT or after is Split.HELDOUT


@pytest.mark.parametrize(("heldout", "validation"), [(0.3, 0.1), (0.27, 0.08)])
def test_splits_have_about_the_share_asked_for(heldout: float, validation: float) -> None:
    names = [f"function_{n}" for n in range(4000)]
    splits = [split_of(name, heldout_fraction=heldout, validation_fraction=validation) for name in names]
    assert splits.count(Split.HELDOUT) / 4000 == pytest.approx(heldout, abs=0.03)
    assert splits.count(Split.VALIDATION) / 4000 == pytest.approx(validation, abs=0.03)
