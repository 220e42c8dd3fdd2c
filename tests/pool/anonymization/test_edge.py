"""Before a record is written for the first time, its secrets and direct identifiers are gone."""

import copy
import json

import pytest

from flywheel.pool.anonymization.canaries import CANARIES, TELLING
from flywheel.pool.anonymization.edge import remove_identifiers

LEFT_TO_THE_POOL = {"PERSON", "STREET_ADDRESS", "DATE_OF_BIRTH", "USER_ID", "HOME"}


@pytest.mark.parametrize("kind", sorted(set(CANARIES) - LEFT_TO_THE_POOL))
def test_a_secret_or_identifier_is_replaced_wherever_it_nests(kind: str) -> None:
    record = {"messages": [{"content": f"it is {CANARIES[kind]}"}], "arguments": json.dumps({"a": CANARIES[kind]})}
    assert remove_identifiers(record).total() >= 2
    assert TELLING[kind] not in json.dumps(record).replace("\\\\", "\\")


def test_a_record_without_any_stays_as_it_is() -> None:
    record = {"taskId": "t-1", "messages": [{"role": "user", "content": "Book flight HAT201 for $173."}], "tokens": 41}
    before = copy.deepcopy(record)
    assert not remove_identifiers(record)
    assert record == before
