"""Canaries of every type go through the policies in force before a day may pass."""

import msgspec
import pytest

from flywheel.pool.anonymization import canaries
from flywheel.pool.anonymization.canaries import CANARIES, canary_point, surviving
from flywheel.pool.anonymization.forms import FORMS
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.violations import strings
from flywheel.records import DataPoint

EVERYTHING_ON = AnonymizationPolicy(remove_variable_names=True, keep_structure_only=True)
FILE_NAMES_KEPT = AnonymizationPolicy(remove_file_names=False)


def test_a_canary_is_a_whole_point_with_the_value_in_every_text() -> None:
    point = canary_point("bird")
    msgspec.convert(point, DataPoint, strict=False)
    with_it = [field for field, text in strings(point) if "bird" in text]
    assert len(with_it) >= 25
    assert "execution.messages[0].toolCalls[0].arguments" in with_it


def test_there_is_a_canary_of_every_type_that_a_form_finds() -> None:
    found = {span.type for value in CANARIES.values() for span in find_spans(f"it is {value}, they say")}
    assert {form.type for form in FORMS} <= found


@pytest.mark.parametrize("policy", [AnonymizationPolicy(), EVERYTHING_ON, FILE_NAMES_KEPT])
def test_no_canary_survives_any_field(policy: AnonymizationPolicy) -> None:
    assert surviving(AnonymizationPolicies(default=policy)) == []


def test_what_survives_is_named_by_field_and_type_and_never_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CANARIES, "UNKNOWN", "zq-unheard-of")
    monkeypatch.setitem(canaries.TELLING, "UNKNOWN", "zq-unheard-of")
    left = surviving(AnonymizationPolicies())
    assert "task.description: UNKNOWN" in left
    assert not any("unheard" in place for place in left)
