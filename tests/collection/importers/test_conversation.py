"""Conversations in the manner of OpenAI's API: the quick way of reading them says what the careful one does."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flywheel.collection.importers.conversation import Conversation, hear_each, openai_conversation
from flywheel.collection.importers.fields import MalformedError

TEXTS = st.none() | st.text(max_size=5) | st.integers() | st.lists(st.fixed_dictionaries({"type": st.just("text")}))
NAMES = st.none() | st.text(max_size=3)
FUNCTIONS = st.none() | st.fixed_dictionaries({}, optional={"name": NAMES | st.integers(), "arguments": TEXTS})
CALLS = st.fixed_dictionaries({}, optional={"id": NAMES | st.integers(), "function": FUNCTIONS | NAMES, "name": NAMES})
ROLES = st.sampled_from(
    ["system", "developer", "user", "human", "assistant", "ai", "tool", "function", "x", None, ["a"]]
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES},
    optional={
        "content": TEXTS,
        "tool_calls": st.none() | st.just("") | st.lists(CALLS, max_size=3) | st.integers(0, 1),
        "tool_call_id": NAMES | st.integers(),
        "function_call": FUNCTIONS,
        "name": NAMES,
        "toolCalls": st.just([1]),
    },
)


def read(way: Callable[[list[Any], Conversation], object], messages: list[Any]) -> Conversation | str:
    """What a way of reading makes of messages that follow another, or its complaint."""
    conversation = Conversation()
    conversation.say("user", "first")
    try:
        way(messages, conversation)
    except MalformedError as error:
        return str(error)
    return conversation


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MESSAGES | st.none(), max_size=4))
def test_the_quick_reading_and_the_careful_one_agree(messages: list[Any]) -> None:
    assert read(openai_conversation, messages) == read(hear_each, messages)


@pytest.mark.parametrize(("last", "left"), [("Thanks. ###STOP###", 1), ("###TRANSFER###", 1), ("please stop", 2)])
def test_the_word_by_which_a_simulated_user_ends_is_left_out(last: str, left: int) -> None:
    conversation = Conversation()
    conversation.say("assistant", "Done.")
    conversation.say("user", last)
    conversation.end_at_stop()
    assert len(conversation.messages) == left
    assert ("stop-of-simulated-user-left-out" in conversation.rules) == (left == 1)


def test_reasoning_among_the_parts_is_left_out_and_what_else_is_no_text_leaves_its_type() -> None:
    parts = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "a"},
        {"type": ["text"], "text": "b"},
        {"type": "image_url"},
    ]
    conversation = openai_conversation([{"role": "assistant", "content": parts}])
    assert [message.content for message in conversation.messages] == ["a\n[part]\n[image_url]"]
    assert set(conversation.rules) == {"reasoning-left-out", "parts-other-than-text-as-their-type"}
