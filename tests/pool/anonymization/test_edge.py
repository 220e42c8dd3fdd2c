"""Before a record is written for the first time, its secrets and direct identifiers are gone."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from flywheel.pool.anonymization.canaries import CANARIES, TELLING
from flywheel.pool.anonymization.context import find_behind_triggers
from flywheel.pool.anonymization.detection import DEFAULT, Detection, detection_of
from flywheel.pool.anonymization.detectors import EDGE
from flywheel.pool.anonymization.edge import Edge, first_look, remove_identifiers
from flywheel.pool.anonymization.own_types import OwnType
from flywheel.records import (
    Caws,
    Complexity,
    Evaluation,
    Execution,
    Feedback,
    Log,
    Message,
    RoutingDecision,
    RubricScores,
    Strategy,
    ToolCall,
    ToolUse,
    Turn,
    encode,
)

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
IN_CONTEXT = ("curl -u ann:Xk9-pq2Z ", "password = Xk9-pq2Z\n", "contraseña: Xk9-pq2Z\n", "name,email\nann,a at b\n")
TEXTS = st.lists(st.sampled_from((*VALUES, *SIGNS, *IN_CONTEXT, "plain", "100%")), max_size=5).map("".join)
NUMBERS = st.integers(0, 10**10) | st.floats(0, 1) | TEXTS  # what a field is declared as holds nobody to it
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
KEPT = frozenset({"log", "timestamp", "taskId"})
BY_FORM = detection_of((OwnType(name="EMPLOYEE_NUMBER", pattern=r"EMP-\d{6}"),))
OWN = detection_of((OwnType(name="EMPLOYEE_NUMBER", pattern=r"EMP-\d{6}", keys=("employee no", "primary_reason")),))
CALLS = st.builds(ToolCall, name=TEXTS, arguments=TEXTS)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    content=TEXTS | st.none(),
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
)
DICTIONARIES = st.dictionaries(st.sampled_from(["role", "content", "email", "Jane", "a@b.example"]), TEXTS | NUMBERS)
FEEDBACK = st.builds(
    Feedback, task_id=TEXTS, timestamp=st.just(AT), source=st.just("user"), name=TEXTS, value=NUMBERS | st.booleans()
)
DECISIONS = st.builds(
    RoutingDecision,
    timestamp=st.just(AT),
    tenant_id=st.just("acme"),
    task_id=TEXTS,
    task_type=TEXTS,
    complexity=st.sampled_from(Complexity),
    selected_agent_id=TEXTS,
    strategy=st.sampled_from(Strategy) | TEXTS,
    confidence=NUMBERS,
    candidate_agents=st.just(()),
    primary_reason=TEXTS,
    requirements=st.lists(TEXTS | NUMBERS, max_size=3).map(tuple) | st.lists(TEXTS, max_size=2),
    user_id=st.none() | TEXTS | st.sampled_from([41, 4111111111111111]),
)
EXECUTIONS = st.builds(
    Execution,
    task_id=TEXTS,
    agent_id=TEXTS,
    timestamp=st.just(AT),
    success=st.booleans(),
    tool_call_count=NUMBERS,
    failure_reason=st.none() | st.just("EMP-1 failed") | TEXTS,
    tools_used=st.lists(st.builds(ToolUse, tool_name=TEXTS, call_count=NUMBERS), max_size=2).map(tuple),
    messages=st.lists(MESSAGES | DICTIONARIES, max_size=2).map(tuple) | st.lists(MESSAGES, max_size=2),
)
EVALUATIONS = st.builds(
    Evaluation,
    task_id=TEXTS,
    agent_id=TEXTS,
    timestamp=st.just(AT),
    quality_gates=st.just(()),
    rubric_scores=st.just(RubricScores(format=1, tool=1, task=1, minimal=1, cost=1, safety=1)),
    overall_score=NUMBERS,
    caws_compliant=st.booleans(),
    budget_compliant=st.booleans(),
    passed_all_mandatory=st.booleans(),
    turn_data=st.lists(
        st.builds(
            Turn,
            turn_number=st.just(1),
            information_gain=NUMBERS,
            format_correctness=NUMBERS,
            task_progress=NUMBERS,
            safety_score=NUMBERS,
            turn_reward=NUMBERS,
            tool_called=st.none() | TEXTS,
        ),
        max_size=2,
    ).map(tuple),
    caws=st.just(UNSET) | st.builds(Caws, verdict_id=st.none() | TEXTS, waivers_used=st.lists(TEXTS).map(tuple)),
)
LOGS = FEEDBACK | DECISIONS | EXECUTIONS | EVALUATIONS


@given(LOGS, st.sampled_from([DEFAULT, BY_FORM, OWN]))
def test_a_log_that_is_told_at_little_cost_to_have_nothing_has_nothing_in_its_json(
    log: Log, detection: Detection
) -> None:
    document = {key: value for key, value in msgspec.json.decode(encode(log)).items() if key not in KEPT}
    if not Edge(kept=KEPT, detection=detection).may_find(log):
        before = copy.deepcopy(document)
        assert not remove_identifiers(document, detection=detection)
        assert document == before


@pytest.mark.parametrize("kind", sorted(set(CANARIES) - LEFT_TO_THE_POOL))
def test_whatever_field_a_secret_or_identifier_is_in_it_is_seen(kind: str) -> None:
    edge = Edge(kept=KEPT)
    said = f"it is {CANARIES[kind]}"
    feedback = Feedback(task_id="t-1", timestamp=AT, source="user", name="rating", value=4.0)
    assert not edge.may_find(feedback)
    for name in ("name", "value", "tenant_id"):
        assert edge.may_find(msgspec.structs.replace(feedback, **{name: said}))
    turns = [Message(role="tool", tool_calls=(ToolCall(name="send", arguments=json.dumps({"to": said})),))]
    execution = Execution(task_id="t-1", agent_id="a", timestamp=AT, success=True, tool_call_count=1)
    assert not edge.may_find(execution)
    for messages in (tuple(turns), turns, [{"role": "tool", "content": said}]):
        assert edge.may_find(msgspec.structs.replace(execution, messages=messages))


@pytest.mark.parametrize(
    ("changes", "detection", "removed"),
    [
        ({"description": "id,mobile\n1,550123\n"}, DEFAULT, {"PHONE_NUMBER": 1}),  # a column's header says so
        ({"description": "EMP-123456"}, BY_FORM, {"EMPLOYEE_NUMBER": 1}),
        ({"primary_reason": "asked for"}, OWN, {"EMPLOYEE_NUMBER": 1}),  # its key is an own type's
        ({"user_id": 4111111111111111}, DEFAULT, {"CREDIT_CARD": 1}),
        ({"user_id": "4111111111111111"}, DEFAULT, {"CREDIT_CARD": 1}),
        ({"user_id": "jane"}, DEFAULT, {}),  # a user's id is the pool's to remove
    ],
)
def test_what_columns_keys_and_own_types_tell_is_seen(
    changes: dict[str, Any], detection: Detection, removed: dict[str, int]
) -> None:
    decision = RoutingDecision(
        timestamp=AT,
        tenant_id="acme",
        task_id="t-1",
        task_type="research",
        complexity=Complexity.STANDARD,
        selected_agent_id="a",
        strategy=Strategy.CAPABILITY_MATCH,
        confidence=0.9,
        candidate_agents=(),
        primary_reason="",
    )
    told = msgspec.structs.replace(decision, **changes)
    document = {key: value for key, value in msgspec.json.decode(encode(told)).items() if key not in KEPT}
    assert Edge(kept=KEPT, detection=detection).may_find(told) == bool(removed)
    assert remove_identifiers(document, detection=detection) == removed


SEEN = st.lists(st.sampled_from((*CANARIES.values(), *VALUES, *SIGNS, *IN_CONTEXT, "ſ", "mot de passe é ")), max_size=8)


@given(SEEN.map("".join))
@example("contraseña: Xk9-pq2Z")
@example("pa\u017fsword: Xk9-pq2Z")
def test_the_first_look_misses_nothing_that_is_found_but_in_tables(text: str) -> None:
    found = [*EDGE.detect(text), *find_behind_triggers(text)]
    assert first_look().may_find_in(text) or not found
