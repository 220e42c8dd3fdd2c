"""Messages of parts are read at once in their usual form, and part by part in any other: to the same."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.collection.importers.otlp_messages import listed, mapping, messages_of_parts, parts_as_messages

WORDS = st.sampled_from([None, "", "a", 'say "a"\n', 3, ["x"], {"y": 1}])
PARTS = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "reasoning", None])}, optional={"content": WORDS}),
    st.fixed_dictionaries({"type": st.just("tool_call"), "name": WORDS}, optional={"arguments": WORDS, "id": WORDS}),
    st.fixed_dictionaries(
        {"type": st.just("tool_call_response")}, optional={"response": WORDS, "result": WORDS, "id": WORDS}
    ),
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "model", "tool", "nobody", 3])},
        optional={"parts": st.lists(PARTS, max_size=3) | st.none(), "name": WORDS, "finish_reason": WORDS},
    ),
    max_size=3,
)


def quickly(messages: Any) -> tuple[list[Any], set[str]]:
    left_out: set[str] = set()
    return list(messages_of_parts(messages, left_out)), left_out


def carefully(messages: Any) -> tuple[list[Any], set[str]]:
    left_out: set[str] = set()
    return [made for message in listed(messages) for made in parts_as_messages(mapping(message), left_out)], left_out


EMPTY_TEXT = {"type": "text", "content": ""}


@given(MESSAGES)
@example([{"role": "tool", "parts": [EMPTY_TEXT, {"type": "tool_call_response", "response": "x"}]}])
def test_the_quick_reading_and_the_careful_one_agree(messages: list[Any]) -> None:
    assert quickly(messages) == carefully(messages)
    assert quickly(json.dumps(messages)) == carefully(messages)


@pytest.mark.parametrize("value", [None, "", "no list", "{}", 5, "[1]", [None], "[" * 5000])
def test_what_is_no_list_of_messages_is_none(value: Any) -> None:
    assert quickly(value) == carefully(value)


def test_texts_calls_and_answers_of_tools_are_messages() -> None:
    usual = [
        {"role": "user", "parts": [{"type": "text", "content": "a"}, {"type": "text", "content": "b"}]},
        {"role": "model", "parts": [{"type": "tool_call", "name": "f", "arguments": {"x": 1}, "id": "1"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "response": [2], "id": "1"}]},
    ]
    assert quickly(usual)[0] == [
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "toolCalls": [{"name": "f", "arguments": '{"x":1}', "id": "1"}]},
        {"role": "tool", "content": "[2]", "toolCallId": "1"},
    ]
