"""Spans against labels: the rule of matching, what counts for recall and precision, and the split for tuning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization.evaluation import (
    MUST_GO,
    Evaluation,
    LabelledText,
    Mark,
    TypeScores,
    evaluate,
    for_tuning,
    masked,
)

TEXT = "Ann Lee lives at 12 Main St, born 1990-01-02"
NAME = Mark(0, 7, "PERSON")


def judged(found: list[Mark], *labels: Mark, complete: set[str] | None = None) -> Evaluation:
    return evaluate([LabelledText(key="k", text=TEXT, marks=labels)], [found], complete=complete)


def scores(result: Evaluation, kind: str) -> TypeScores:
    (one,) = [one for one in result.types if one.type == kind]
    return one


@pytest.mark.parametrize(
    ("found", "removed"),
    [
        ([Mark(0, 7, "PERSON")], 1),
        ([Mark(0, 3, "PERSON"), Mark(4, 7, "PERSON")], 1),  # the space between is nothing to learn from
        ([Mark(0, 3, "PERSON"), Mark(4, 7, "USER_NAME")], 1),  # whatever the placeholders are called
        ([Mark(0, 6, "PERSON")], 1),  # 5 of 6 characters
        ([Mark(0, 5, "PERSON")], 0),  # 4 of 6
        ([Mark(7, 20, "PERSON")], 0),
        ([], 0),
    ],
)
def test_a_label_is_removed_when_four_fifths_of_its_characters_are_covered(found: list[Mark], removed: int) -> None:
    assert scores(judged(found, NAME), "PERSON").removed == removed


def test_a_label_is_typed_by_spans_of_its_own_type_alone() -> None:
    one = scores(judged([Mark(0, 3, "PERSON"), Mark(4, 7, "USER_NAME")], NAME), "PERSON")
    assert (one.removed, one.typed, one.exact) == (1, 0, 0)
    assert scores(judged([NAME], NAME), "PERSON").typed == 1


@pytest.mark.parametrize(("end", "right"), [(7, 1), (13, 1), (16, 0), (44, 0)])
def test_a_span_is_right_when_half_of_it_is_labelled(end: int, right: int) -> None:
    assert scores(judged([Mark(0, end, "PERSON")], NAME), "PERSON").right == right


def test_a_span_is_right_by_a_label_of_another_type_that_must_go_and_not_by_one_that_may_stay() -> None:
    one = scores(judged([Mark(0, 7, "USER_NAME")], NAME), "USER_NAME")
    assert (one.right, one.right_typed) == (1, 0)
    organization = Mark(0, 7, "ORGANIZATION")
    assert scores(judged([NAME], organization), "PERSON").right == 0
    assert scores(judged([organization], organization), "ORGANIZATION").right == 1


def test_precision_is_judged_by_complete_types_alone() -> None:
    found = [NAME, Mark(17, 27, "SECRET")]
    assert scores(judged(found, NAME), "SECRET").precision is None
    assert judged(found, NAME).total.found == 1
    everything = judged(found, NAME, complete={"PERSON", "SECRET"})
    assert scores(everything, "SECRET").right == 0
    assert (everything.total.found, everything.total.right) == (2, 1)


def test_labels_that_may_stay_are_reported_and_not_in_the_total() -> None:
    result = judged([], NAME, Mark(17, 27, "LOCATION"))
    assert scores(result, "LOCATION").labels == 1
    assert not scores(result, "LOCATION").must_go
    assert (result.total.labels, result.total.removed) == (1, 0)
    assert [example.mark for example in result.missed] == [NAME]


def test_exact_takes_start_end_and_type() -> None:
    result = judged([Mark(0, 6, "PERSON"), Mark(34, 44, "DATE_OF_BIRTH")], NAME, Mark(34, 44, "DATE_OF_BIRTH"))
    assert result.total.recall is not None
    assert result.total.exact_recall is not None
    assert (result.total.recall.value, result.total.exact_recall.value) == (1.0, 0.5)
    assert (result.total.f1, result.total.exact_f1) == (1.0, 0.5)


def test_intervals_are_wilsons() -> None:
    recall = scores(judged([NAME], NAME), "PERSON").recall
    assert recall is not None
    assert recall.value == 1.0
    assert recall.low == pytest.approx(0.2065, abs=1e-4)  # 1 / (1 + 1.96²)
    assert recall.high == 1.0


def test_what_was_replaced_counts_each_character_once() -> None:
    result = judged([Mark(0, 7, "PERSON"), Mark(4, 7, "USER_NAME")], NAME)
    assert (result.characters, result.replaced_characters) == (len(TEXT), 7)


def test_examples_are_kept_up_to_their_number_of_each_type_and_all_are_counted() -> None:
    texts = [LabelledText(key=str(number), text=TEXT, marks=(NAME,)) for number in range(5)]
    result = evaluate(texts, [[]] * 5, examples=2)
    assert [example.number for example in result.missed] == [0, 1]
    assert result.total.labels == 5


def test_predictions_of_another_number_than_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        evaluate([LabelledText(key="k", text=TEXT, marks=())], [])


marks = st.builds(
    lambda start, length, kind: Mark(start, min(start + length, len(TEXT)), kind),
    st.integers(0, len(TEXT) - 1),
    st.integers(1, 12),
    st.sampled_from(["PERSON", "USER_NAME", "LOCATION"]),
)


@given(st.lists(marks, max_size=5), st.lists(marks, max_size=5), marks)
def test_one_more_span_never_uncovers_a_label(labels: list[Mark], found: list[Mark], more: Mark) -> None:
    less, all_of = judged(found, *labels), judged([*found, more], *labels)
    assert all_of.total.removed >= less.total.removed
    assert all_of.replaced_characters >= less.replaced_characters


@given(st.lists(marks, min_size=1, max_size=6))
def test_the_labels_themselves_are_a_perfect_answer(labels: list[Mark]) -> None:
    visible = [label for label in labels if TEXT[label.start : label.end].strip()]
    result = judged(visible, *visible)
    for one in result.types:
        assert one.removed == one.typed == one.exact == one.labels
        assert one.right_typed == one.right_exact == one.found
    assert result.total.labels == sum(label.type in MUST_GO for label in visible)


def test_the_split_for_tuning_is_by_the_key_alone() -> None:
    keys = [f"text {number}" for number in range(2_000)]
    chosen = {key for key in keys if for_tuning(key)}
    assert 900 < len(chosen) < 1_100
    assert chosen == {key for key in reversed(keys) if for_tuning(key)}
    assert not for_tuning("")  # SHA-256 of nothing ends in …b855
    assert for_tuning("a") is (0xBB % 2 == 0)  # … and of "a" in …48bb


@given(st.text())
def test_a_shape_has_the_values_length_and_none_of_its_letters(value: str) -> None:
    shape = masked(value)
    assert len(shape) == len(value)
    assert {one for one in shape if one.isalnum()} <= {"x", "X", "9"}
