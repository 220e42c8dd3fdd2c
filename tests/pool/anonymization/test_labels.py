"""Labelled texts in three layouts, and lines that cannot be used."""

import json

import pytest

from flywheel.errors import InputError
from flywheel.pool.anonymization.evaluation import Mark
from flywheel.pool.anonymization.labels import TAU_COMPLETE, read_labels, read_predictions

SPAN = {"start": 0, "end": 3, "type": "PERSON"}


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def test_our_layout_has_an_id_or_goes_by_its_text() -> None:
    labels = read_labels([line({"text": "Ann", "spans": [SPAN]}), line({"id": "7", "text": "", "spans": []})], name="f")
    assert [(one.key, one.marks) for one in labels.texts] == [("Ann", (Mark(0, 3, "PERSON"),)), ("7", ())]
    assert labels.complete is None


def test_tau_messages_say_which_types_are_complete() -> None:
    message = {"id": "m", "source": "s", "role": "user", "text": "Ann", "spans": [{**SPAN, "value": "Ann"}]}
    assert read_labels([line(message)], name="f").complete == TAU_COMPLETE


def test_presidio_research_is_one_array_with_names_of_its_own() -> None:
    span = {"entity_type": "GPE", "entity_value": "Tunis", "start_position": 3, "end_position": 8}
    labels = read_labels([line([{"full_text": "in Tunis", "spans": [span]}])], name="f")
    assert labels.texts[0].marks == (Mark(3, 8, "LOCATION"),)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "not JSON"),
        (line(3), "not a JSON object"),
        (line({"text": "Ann"}), "no 'spans'"),
        (line({"text": 3, "spans": []}), "not a string"),
        (line({"text": "Ann", "spans": [{"start": 0, "end": 3}]}), "no 'type'"),
        (line({"text": "Ann", "spans": [{**SPAN, "end": 4}]}), "the span 0–4 is not in the text of 3 characters"),
        (line({"text": "Ann", "spans": [{**SPAN, "end": 0}]}), "the span 0–0 is not in the text"),
        (line({"text": "Ann", "spans": [{**SPAN, "start": True}]}), "start and end as integers"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_reason(bad: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^f:2: .*{reason}"):
        read_labels([line({"text": "Ann", "spans": []}), bad], name="f")


def test_predictions_are_a_line_for_each_text() -> None:
    texts = read_labels([line({"text": "Ann", "spans": []})] * 2, name="f").texts
    predicted = line({"spans": [SPAN], "id": 1})
    assert read_predictions([predicted, predicted], texts, name="p") == [(Mark(0, 3, "PERSON"),)] * 2
    with pytest.raises(InputError, match="p has 1 lines, not one for each of 2"):
        read_predictions([predicted], texts, name="p")
    with pytest.raises(InputError, match="p:3: there are only 2 labelled texts"):
        read_predictions([predicted] * 3, texts, name="p")
    with pytest.raises(InputError, match="p:1: the span 0–9 is not in the text"):
        read_predictions([line({"spans": [{**SPAN, "end": 9}]})], texts, name="p")
