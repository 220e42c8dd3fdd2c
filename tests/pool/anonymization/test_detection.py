"""What is looked for is a value: own types beside the built-in ones, and nothing changes for who has none."""

import copy
import json
import pickle
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.errors import PoolError
from flywheel.pool.anonymization import day as anonymization_day
from flywheel.pool.anonymization.canaries import CANARIES, surviving
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.anonymization.detection import DEFAULT, Detection, detection_of
from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.own_types import OwnType
from flywheel.pool.anonymization.policy import AnonymizationPolicies
from flywheel.pool.anonymization.spans import find_each, find_spans
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import ANONYMIZED
from flywheel.pool.settings import AnonymizationSettings
from flywheel.pool.validation import validate_day
from flywheel.records import decode_point
from flywheel.settings import Settings
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)
NUMBER = OwnType(name="EMPLOYEE_NUMBER", pattern=r"\bEMP-\d{6}\b", keys=("employee_no",))
BADGE = OwnType(name="BADGE", pattern=r"\b\d{4}\b", words=("badge", "staff card"))
OWN = detection_of((NUMBER, BADGE))


def clean(text: str, detection: Detection = OWN) -> str:
    return Anonymizer(detection=detection).text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask EMP-123456, then EMP-123456 again", "ask [EMPLOYEE_NUMBER_1], then [EMPLOYEE_NUMBER_1] again"),
        ("EMP-1234567 is none", "EMP-1234567 is none"),
        ("her Badge is 4711", "her Badge is [BADGE_1]"),
        ("her badge_no: 4711", "her badge_no: [BADGE_1]"),
        ("badges are 4711 by now", "badges are 4711 by now"),
        (f"badge {'-' * 50} 4711", f"badge {'-' * 50} 4711"),
        ('{"employeeNo": "k 7", "n": 3}', '{"employeeNo": "[EMPLOYEE_NUMBER_1]", "n": 3}'),
        ('{"Employee-No": 42}', '{"Employee-No": "[EMPLOYEE_NUMBER_1]"}'),
        ('{"employee_no": 4.25}', '{"employee_no": 4.25}'),
        ('{"employee_no": "string"}', '{"employee_no": "string"}'),
        ("ＥＭＰ-１２３４５６", "[EMPLOYEE_NUMBER_1]"),
        ("[EMP-123456]", "[[EMPLOYEE_NUMBER_1]]"),
    ],
)
def test_own_types_are_found_by_form_words_and_keys(text: str, expected: str) -> None:
    assert clean(text) == expected
    assert "EMPLOYEE_NUMBER" not in clean(text, DEFAULT)


def test_values_of_own_keys_go_as_a_whole_and_are_known_in_the_rest_of_the_record() -> None:
    record = {"employeeNo": ["a-long id 9", 5], "employee_no": 48213, "note": "48213 and a-long id 9", "count": 48213}
    assert Anonymizer(detection=OWN).value(record) == {
        "employeeNo": ["[EMPLOYEE_NUMBER_1]", "[EMPLOYEE_NUMBER_2]"],
        "employee_no": "[EMPLOYEE_NUMBER_3]",
        "note": "[EMPLOYEE_NUMBER_3] and [EMPLOYEE_NUMBER_1]",
        "count": 48213,
    }


def test_a_word_counts_in_its_own_text_alone_and_no_match_reaches_into_another() -> None:
    assert find_each(["his badge", "4711"], detection=OWN) == [[], []]
    greedy = detection_of((OwnType(name="TICKET", pattern=r"T-[^,]+"),))
    found = find_each(["see T-1 a", "other", "see T-2, b"], detection=greedy)
    assert [[span.value for span in spans] for spans in found] == [["T-1 a"], [], ["T-2"]]


def test_the_edge_takes_them_too() -> None:
    record = {"text": "EMP-123456", "employee_no": 48213, "arguments": '{"employee_no": 48213}', "firstName": "Ann"}
    before = copy.deepcopy(record)
    assert not remove_identifiers(record)
    assert record == before
    assert remove_identifiers(record, detection=OWN) == {"EMPLOYEE_NUMBER": 3}
    assert record == {
        "text": "[EMPLOYEE_NUMBER_1]",
        "employee_no": "[EMPLOYEE_NUMBER_2]",
        "arguments": '{"employee_no": "[EMPLOYEE_NUMBER_2]"}',
        "firstName": "Ann",
    }


def covered(text: str, detection: Detection) -> set[int]:
    return {place for span in find_spans(text, detection=detection) for place in range(span.start, span.end)}


GREEDY = (r"\w{2}", r"[^,]{3}", r"key|card|\d\d", r"..", r"(?s).+")


@given(
    st.lists(st.sampled_from([*CANARIES.values(), "EMP-1", "of", "\n", "é", ", "]), max_size=5).map(" ".join),
    st.sampled_from(GREEDY),
)
def test_whatever_an_own_type_takes_nothing_else_is_left_that_was_found_without_it(text: str, pattern: str) -> None:
    assert covered(text, DEFAULT) <= covered(text, detection_of((OwnType(name="GREEDY", pattern=pattern),)))


def test_placeholders_stay_whatever_an_own_type_matches() -> None:
    words = detection_of((OwnType(name="CODE", pattern=r"[A-Z_]{4,}\d?"),))
    assert clean("[PERSON_1] of [TENANT] has ABCD", words) == "[PERSON_1] of [TENANT] has [CODE_1]"


def test_it_travels_as_its_settings_and_is_made_once_a_process() -> None:
    assert find_spans("EMP-123456", detection=OWN)
    travelled = pickle.loads(pickle.dumps(OWN))
    assert travelled == OWN
    assert travelled is detection_of((NUMBER.model_copy(), BADGE.model_copy()), "")


def test_the_digest_is_of_all_settings_and_empty_without_any() -> None:
    digests = {
        one.digest(salt=salt)
        for one in (OWN, detection_of((BADGE, NUMBER)), detection_of((NUMBER,)), detection_of((), "a_model"))
        for salt in (b"one", b"other")
    }
    assert len(digests) == 8
    assert Detection().digest(salt=b"one") == ""


def test_no_canary_survives_beside_own_types() -> None:
    assert surviving(AnonymizationPolicies(), detection=OWN) == []


@pytest.fixture
def pool_with(settings: Settings) -> Iterator[Any]:
    """Opens the pool of the test with these types."""
    opened: list[BenchmarkPool] = []

    def open_with(*types: OwnType) -> BenchmarkPool:
        own = settings.model_copy(update={"anonymization": AnonymizationSettings(types=types)})
        pool = BenchmarkPool.open(own)
        opened.append(pool.__enter__())
        return opened[-1]

    yield open_with
    for pool in opened:
        pool.__exit__(None, None, None)


def test_a_day_is_anonymized_with_them_and_another_list_is_another_version(
    pool_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, own = pool_with(), pool_with(NUMBER)
    write_segment(plain.settings, "a", task_logs("t1", description="ask EMP-123456"))
    index_segments(plain, now=LATER)
    validate_day(plain, DAY, now=LATER)
    without = anonymize_day(plain, DAY)
    assert without.version == f"{without.digest}-{without.policies}"
    monkeypatch.setattr(anonymization_day, "processes_for", lambda pool, points: 2)
    report = anonymize_day(own, DAY)
    assert report.replaced["EMPLOYEE_NUMBER"] == 1
    (row,) = read_rows(own, ANONYMIZED, DAY)
    assert decode_point(row["payload"]).task.description == "ask [EMPLOYEE_NUMBER_1]"
    assert json.loads(row["payload"])["task"]["description"] == "ask [EMPLOYEE_NUMBER_1]"
    assert find_violations(own, DAY).count == 0
    others = anonymize_day(pool_with(NUMBER, OwnType(name="NEVER", pattern="never-there")), DAY)
    assert others.digest == report.digest
    assert len({without.version, report.version, others.version}) == 3


def test_a_type_that_takes_what_a_point_needs_is_named_and_nothing_is_written(pool_with: Any) -> None:
    pool = pool_with(OwnType(name="MOMENT", pattern=r"\d{4}-\d{2}-\d{2}"))
    feedback = {"log": "feedback", "taskId": "t1", "source": "user", "name": "rating", "value": 1, "tenantId": "acme"}
    logs = [*task_logs("t1"), {**feedback, "timestamp": (NOON + timedelta(hours=1)).isoformat()}]
    write_segment(pool.settings, "a", logs)
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    with pytest.raises(PoolError, match=r"is none any more .* anonymization\.types narrower"):
        anonymize_day(pool, DAY)
    assert list(read_rows(pool, ANONYMIZED, DAY)) == []
