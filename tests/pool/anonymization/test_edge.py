"""Before a record is written for the first time, its secrets and direct identifiers are gone."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.pool.anonymization.canaries import CANARIES, TELLING
from flywheel.pool.anonymization.detection import DEFAULT
from flywheel.pool.anonymization.edge import find_at_edge, remove_identifiers
from flywheel.pool.anonymization.places import places_in
from flywheel.pool.anonymization.text import Anonymizer

LEFT_TO_THE_POOL = {"PERSON", "STREET_ADDRESS", "ZIP_CODE", "DATE_OF_BIRTH", "USER_ID", "HOME"}


@pytest.mark.parametrize("kind", sorted(set(CANARIES) - LEFT_TO_THE_POOL))
def test_a_secret_or_identifier_is_replaced_wherever_it_nests(kind: str) -> None:
    record = {"messages": [{"content": f"it is {CANARIES[kind]}"}], "arguments": json.dumps({"a": CANARIES[kind]})}
    assert remove_identifiers(record).total() >= 2
    assert TELLING[kind] not in json.dumps(record).replace("\\\\", "\\")


def test_a_time_of_a_log_that_is_none_is_looked_into() -> None:
    record = {"timestamp": "2026-03-02T12:00:00Z", "messages": [{"timestamp": "2026-03-02T12:00:00 mei@example.org"}]}
    assert remove_identifiers(record) == {"EMAIL_ADDRESS": 1}
    assert record["timestamp"] == "2026-03-02T12:00:00Z"
    assert "mei" not in json.dumps(record)


def test_a_record_without_any_stays_as_it_is() -> None:
    record = {"taskId": "t-1", "messages": [{"role": "user", "content": "Book flight HAT201 for $173."}], "tokens": 41}
    before = copy.deepcopy(record)
    assert not remove_identifiers(record)
    assert record == before


VALUES = ("jane.doe@example.org", "sk-proj-" + "a1B2" * 10, "4111 1111 1111 1111", "+1 (212) 555-0187")
SIGNS = ("\\", "\0", "\n", "%40", "\\u0040", '{"email": "x"}', "ü", "\u200b", "[EMAIL_ADDRESS_3]", " ", "-", "7", "@")
PIECES = st.sampled_from((*VALUES, *SIGNS, "plain", "100%", "curl -u ann:Xk9-pq2Z ", "password = Xk9-pq2Z\n"))
TEXTS = st.lists(PIECES, max_size=5).map("".join)
KEYS = st.sampled_from(
    ["content", "password", "email", "phone", "ssn", "userId", "note", "tokens", "Jane", "a@b.example"]
)
RECORDS = st.dictionaries(
    KEYS,
    st.recursive(
        TEXTS | st.integers(0, 10**10) | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(deadline=None)  # the automata are compiled at first use
@given(RECORDS)
def test_what_is_told_at_little_cost_is_what_the_whole_way_finds(record: dict[str, Any]) -> None:
    whole = copy.deepcopy(record)
    anonymizer = Anonymizer(find=find_at_edge, detection=DEFAULT)
    anonymizer.replace(places_in(whole, detection=DEFAULT))
    assert remove_identifiers(record) == anonymizer.replaced
    assert record == whole
