"""A point's conversation as trainers take it."""

from flywheel.pool.conversations import chat_message, chat_tool, parted
from flywheel.records import Message, ToolCall
from flywheel.tasks.source import Tool

SYSTEM = Message(role="system", content="You call functions.")
ASKED = Message(role="user", content="Weather in Rome?")
CALL = ToolCall(name="weather", arguments='{"city": "Rome", "days": 2}', id="call-1")
CALLED = Message(role="assistant", tool_calls=(CALL,))
RESULT = Message(role="tool", content="sunny", tool_call_id="call-1")
ANSWER = Message(role="assistant", content="Sunny.")


def test_the_answer_is_all_that_follows_the_last_question() -> None:
    first = (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))
    found = parted((SYSTEM, *first, ASKED, CALLED, RESULT, ANSWER))
    assert found.prompt == (SYSTEM, *first, ASKED)
    assert found.answer == (CALLED, RESULT, ANSWER)
    assert found.answered


def test_demonstrations_are_no_part_of_it() -> None:
    shown = (Message(role="user", name="example_user", content="x"), Message(role="assistant", name="example_a"))
    assert parted((SYSTEM, *shown, ASKED, ANSWER)).prompt == (SYSTEM, ASKED)


def test_a_conversation_that_a_tool_ends_or_nobody_began_is_not_answered() -> None:
    assert not parted((ASKED, CALLED, RESULT)).answered
    assert not parted((ASKED,)).answered
    assert not parted((ANSWER,)).asked
    assert not parted(()).asked


def test_what_many_tasks_share_does_not_make_them_alike() -> None:
    assert parted((SYSTEM, ASKED, CALLED)).text == 'Weather in Rome?\n\nweather {"city": "Rome", "days": 2}'


def test_calls_have_openai_s_form_with_arguments_as_an_object() -> None:
    assert chat_message(CALLED) == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call-1",
                "type": "function",
                "function": {"name": "weather", "arguments": {"city": "Rome", "days": 2}},
            }
        ],
    }
    assert chat_message(RESULT) == {"role": "tool", "content": "sunny", "tool_call_id": "call-1"}


def test_content_that_spells_the_calls_out_is_not_written_twice() -> None:
    spelled = '{"name": "weather", "arguments": {"days": 2, "city": "Rome"}}\n'
    assert chat_message(Message(role="assistant", content=spelled, tool_calls=(CALL,)))["content"] == ""
    thought = "Let me look."
    assert chat_message(Message(role="assistant", content=thought, tool_calls=(CALL,)))["content"] == thought


def test_arguments_that_are_no_object_stay_text() -> None:
    broken = Message(role="assistant", tool_calls=(ToolCall(name="f", arguments='{"a": [EMAIL_1]}'),))
    assert chat_message(broken)["tool_calls"][0]["function"]["arguments"] == '{"a": [EMAIL_1]}'


def test_a_tool_s_types_are_json_s() -> None:
    tool = Tool(
        name="f",
        description="Does.",
        parameters={"type": "dict", "properties": {"xs": {"type": "tuple", "items": {"type": "float"}}}},
    )
    assert chat_tool(tool)["function"]["parameters"] == {
        "type": "object",
        "properties": {"xs": {"type": "array", "items": {"type": "number"}}},
    }
