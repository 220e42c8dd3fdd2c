"""Calls for their own sake are found; looking again after something happened, retrying and polling are not."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.hacking.conversations import findings_in_conversation, steps_of
from flywheel.records import Message, ToolCall
from flywheel.tasks.source import Tool

Call = tuple[str, dict[str, Any], str | None]
SEARCH = Tool(name="search", description="", parameters={"properties": {"query": {}}, "required": ["query"]})


def asked(text: str = "What does the deed say?") -> Message:
    return Message(role="user", content=text)


def called(*calls: Call, said: str | None = None) -> list[Message]:
    """One message of an agent with calls, and their results; None: there is none."""
    made = tuple(
        ToolCall(name=name, arguments=json.dumps(arguments), id=f"{name}-{at}")
        for at, (name, arguments, _) in enumerate(calls)
    )
    results = [
        Message(role="tool", name=call.name, tool_call_id=call.id, content=result)
        for call, (_, _, result) in zip(made, calls, strict=True)
        if result is not None
    ]
    return [Message(role="assistant", content=said, tool_calls=made), *results]


def names(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[str]:
    return [finding.name for finding in findings_in_conversation(messages, tools=tools)]


LOOK: Call = ("look", {"at": "door"}, "closed")


def test_the_same_call_with_the_same_result_is_found_from_the_fourth_time_on() -> None:
    assert names([asked(), *called(LOOK) * 3]) == []
    found = findings_in_conversation([asked(), *called(LOOK) * 4])
    assert [(finding.name, finding.line) for finding in found] == [("repeated_calls", 2)]
    assert found[0].evidence == 'look({"at": "door"}) was called 4 times with the same result'
    assert names([asked(), *called(LOOK, LOOK, LOOK, LOOK)]) == ["repeated_calls"]
    assert names([asked(), *called(("look", {"at": "door"}, None)) * 5]) == ["repeated_calls"]


def test_arguments_in_another_order_are_the_same() -> None:
    calls = [called(("look", dict(pairs), "closed")) for pairs in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]) * 2]
    assert names([asked(), *(message for call in calls for message in call)]) == ["repeated_calls"]


def test_polling_until_something_changes_is_no_cheat() -> None:
    waits = [called(("look", {"at": "door"}, f"closed for {minutes} minutes")) for minutes in range(6)]
    assert names([asked(), *(message for wait in waits for message in wait)]) == []


def test_looking_again_after_another_call_or_a_word_of_the_user_is_no_cheat() -> None:
    turned = [message for knob in range(6) for message in (*called(("turn", {"knob": knob}, "turned")), *called(LOOK))]
    assert names([asked(), *turned]) == []
    told = [message for time in range(6) for message in (asked(f"Now it is {time}. And now?"), *called(LOOK))]
    assert names(told) == []


def test_steps_over_and_over_are_a_loop_unless_their_results_differ() -> None:
    both = [*called(LOOK), *called(("knock", {}, "nobody"))]
    assert "loop" in names([asked(), *both * 3])
    assert names([asked(), *both * 2]) == []
    knocked = [m for time in range(4) for m in (*called(("look", {}, f"{time}")), *called(("knock", {}, f"{time}")))]
    assert names([asked(), *knocked]) == []


def test_the_same_words_again_are_a_loop_unless_the_user_says_something_new() -> None:
    text = "I cannot find the deed, because the archive is closed today."
    assert names([asked(), *[Message(role="assistant", content=text)] * 3]) == ["loop"]
    assert (
        names([m for time in range(5) for m in (asked(f"Then try {time}"), Message(role="assistant", content=text))])
        == []
    )
    assert names([asked(), *[Message(role="assistant", content="Yes.")] * 9]) == []


@pytest.mark.parametrize("arguments", [{"query": ""}, {"query": "  "}, {"query": None}, {"query": [], "more": {}}, {}])
def test_calls_that_say_nothing_are_dummies_where_the_tool_needs_arguments(arguments: dict[str, Any]) -> None:
    messages = [asked(), *called(("search", arguments, "nothing")), *called(("search", {**arguments, "x": ""}, "none"))]
    assert names(messages, [SEARCH]) == ["dummy_calls"]
    listing = Tool(name="search", description="", parameters={"properties": {}})
    assert names(messages, [listing]) == []
    assert names([asked(), *called(("search", {"query": "deed", "near": ""}, "here")) * 2], [SEARCH]) == []


def test_tools_that_do_nothing_are_dummies_where_they_are_most_of_the_calls() -> None:
    idle = [message for time in range(3) for message in called(("sleep", {"seconds": time}, "slept"))]
    assert names([asked(), *idle]) == ["dummy_calls"]
    work = [message for number in range(5) for message in called(("open", {"box": number}, f"{number} deeds"))]
    assert names([asked(), *idle, *work]) == []


def told(number: int) -> str:
    return f"keeper{number} shelf{number}{number} seal{number}{number} folio{number}{number}"


def test_results_of_which_nothing_is_used_are_dummies_and_one_word_that_is_used_counts() -> None:
    lookups = [message for number in range(9) for message in called(("register", {"volume": number}, told(number)))]
    assert names([asked(), *lookups, Message(role="assistant", content="It says nothing.")]) == ["dummy_calls"]
    summary = " ".join(f"shelf{number}{number}" for number in range(9))
    assert names([asked(), *lookups, Message(role="assistant", content=f"It is on {summary}.")]) == []
    passed_on = [m for number in range(9) for m in called(("open", {"seal": f"seal{number}{number}"}, "opened"))]
    assert names([asked(), *lookups, *passed_on]) == []


def test_calls_that_do_something_and_say_so_are_no_dummies() -> None:
    sent = [message for number in range(12) for message in called(("send", {"to": f"person{number}"}, "Done."))]
    assert names([asked(), *sent, Message(role="assistant", content="All are told.")]) == []


def test_results_are_found_by_id_or_else_by_order() -> None:
    calls = tuple(ToolCall(name=name, arguments="{}") for name in ("a", "b"))
    messages = [
        Message(role="assistant", tool_calls=calls),
        Message(role="tool", content="of a"),
        Message(role="tool", content="of b"),
    ]
    assert [step.result for step in steps_of(messages)] == ["of a", "of b"]
    assert [step.result for step in steps_of(messages[:2])] == [None, None]  # whose it is is not known
    swapped = [
        Message(
            role="assistant",
            tool_calls=(ToolCall(name="a", arguments="{}", id="1"), ToolCall(name="b", arguments="{}", id="2")),
        ),
        Message(role="tool", tool_call_id="2", content="of b"),
        Message(role="tool", tool_call_id="1", content="of a"),
    ]
    assert [step.result for step in steps_of(swapped)] == ["of a", "of b"]


@given(
    arguments=st.lists(st.text(max_size=20), max_size=20),
    roles=st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=20),
)
def test_any_conversation_can_be_looked_at(arguments: list[str], roles: list[Any]) -> None:
    calls = tuple(ToolCall(name="a", arguments=text) for text in arguments)
    messages = [
        Message(role=role, content=None if at % 2 else "x" * at, tool_calls=calls if role == "assistant" else ())
        for at, role in enumerate(roles)
    ]
    assert {finding.name for finding in findings_in_conversation(messages)} <= {"repeated_calls", "loop", "dummy_calls"}


def test_ten_thousand_calls_in_one_message_are_looked_at_once() -> None:
    calls = [("register", {"volume": number}, told(number)) for number in range(10_000)]
    assert names([asked(), *called(*calls)]) == ["dummy_calls"]
