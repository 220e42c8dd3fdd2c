"""Our detectors on labelled texts that are not ours: figures that may rise and must not fall."""

import pytest

from flywheel.pool.anonymization.evaluation import Account, Evaluation, LabelledText, Mark, TypeScores
from flywheel.pool.anonymization.spans import find_spans
from tests.pool.anonymization.labelled import PRESIDIO_RESEARCH, TAU, held_back

Figure = tuple[str, float, float]


def evaluated(name: str) -> Evaluation:
    labels = held_back(name)
    account = Account()
    for text in labels.texts:
        account.add(text, found_in(text))
    return account.evaluation(labels.complete)


def found_in(text: LabelledText) -> list[Mark]:
    return [Mark(span.start, span.end, span.type) for span in find_spans(text.text)]


def scores(result: Evaluation, kind: str) -> TypeScores:
    (one,) = [one for one in result.types if one.type == kind]
    assert one.recall is not None
    assert one.precision is not None
    return one


@pytest.mark.parametrize(
    ("name", "floors"),
    [
        (
            TAU,
            [
                ("EMAIL_ADDRESS", 1.0, 1.0),
                ("PHONE_NUMBER", 0.95, 0.95),
                ("DATE_OF_BIRTH", 0.95, 0.95),
                ("PAYMENT_ID", 0.95, 0.95),
                ("USER_ID", 0.95, 0.95),
            ],
        ),
        (
            PRESIDIO_RESEARCH,
            [
                ("EMAIL_ADDRESS", 1.0, 1.0),
                ("CREDIT_CARD", 0.85, 0.95),
                ("IBAN_CODE", 0.75, 0.9),
                ("IP_ADDRESS", 0.9, 0.9),
                ("US_SSN", 0.9, 0.9),
            ],
        ),
    ],
)
def test_values_of_closed_form_are_found_and_others_left(name: str, floors: list[Figure]) -> None:
    result = evaluated(name)
    for kind, recall, precision in floors:
        one = scores(result, kind)
        assert (one.recall is not None and one.recall.value) >= recall, (kind, one)
        assert (one.precision is not None and one.precision.value) >= precision, (kind, one)


def test_labels_of_both_layouts_mark_what_they_name() -> None:
    tau, research = held_back(TAU), held_back(PRESIDIO_RESEARCH)
    assert (len(tau.texts), len(research.texts)) == (1_490, 480)
    for text in (*tau.texts, *research.texts):
        for mark in text.marks:
            value = text.text[mark.start : mark.end]
            assert value == value.strip() or mark.type in {"STREET_ADDRESS", "ORGANIZATION"}
            assert mark.type != "EMAIL_ADDRESS" or "@" in value
