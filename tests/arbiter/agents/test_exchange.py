"""What agents of a team's own answer in conversations: it is of the form that was asked for, or no answer."""

from typing import Any

import msgspec
import pytest

from flywheel.arbiter.agents.exchange import Reply, answer_of, given, reply_of
from flywheel.arbiter.agents.openai_wire import Usage
from flywheel.records import Complexity, Message, ToolCall
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.source import AgentTask, Tool

ADD = Tool(name="add", description="Adds.", parameters={"type": "object"})
CALL = ToolCall(name="add", arguments='{"a": 1}')


def chat(**options: object) -> AgentTask:
    return AgentTask(
        id="t1",
        task_type="chat",
        complexity=Complexity.STANDARD,
        question=(Message(role="user", content="What is 1 plus 2?"),),
        tools=(ADD,),
        dialect="chat",
        options=GenerationOptions(**options),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("options", "reply", "reason"),
    [
        ({}, Reply(text="3"), None),
        ({}, Reply(tool_calls=(CALL,)), None),
        ({}, Reply(tool_calls=(ToolCall(name="sub", arguments="{}"),)), "it calls sub, which is none of the tools"),
        ({"tool_choice": "none"}, Reply(tool_calls=(CALL,)), "it calls add, which is none of the tools"),
        ({"tool_choice": "required"}, Reply(text="3"), "tool_choice asks for a call of a tool, and it did not make it"),
        ({"tool_choice": "required"}, Reply(tool_calls=(CALL,)), None),
        ({"response_format": {"type": "json_object"}}, Reply(text='{"sum": 3}'), None),
        (
            {"response_format": {"type": "json_object"}},
            Reply(text="3, I think"),
            "response_format asks for JSON, and it did not answer in JSON",
        ),
    ],
)
def test_an_answer_is_held_to_what_was_asked_for(options: dict[str, object], reply: Reply, reason: str | None) -> None:
    assert answer_of(reply, (), latency_ms=1.0, task=chat(**options)).failure_reason == reason


def test_calls_get_ids_and_options_their_own_names() -> None:
    answer = answer_of(Reply(tool_calls=(CALL, CALL)), (), latency_ms=1.0, task=chat())
    assert len({call.id for call in answer.tool_calls} - {None}) == 2
    assert answer.finish_reason == "tool_calls"
    assert given(chat(max_tokens=5, tool_choice="none"), ()).tools == ()
    assert given(chat(max_tokens=5), ()).options.given() == {"max_tokens": 5}


def test_what_is_no_text_is_no_answer_and_no_reason() -> None:
    task = chat()
    half = "caf\udce9"
    answers = [
        answer_of(reply, given(task, ()).messages, latency_ms=1.0, task=task)
        for reply in (Reply(text=half), Reply(failure_reason=f"no file {half}"))
    ]
    assert answers[0].failure_reason is not None
    assert answers[0].failure_reason.startswith("its answer is no text: 'utf-8' codec can't encode")
    assert answers[1].failure_reason == "no file caf?"


@pytest.mark.parametrize("tokens", [-1, 2**63 - 1, 10**30])
@pytest.mark.parametrize(
    ("read", "name"),
    [(reply_of, "outputTokens"), (lambda told: msgspec.convert(told, type=Usage), "completion_tokens")],
)
def test_tokens_that_no_answer_takes_are_no_count(read: Any, name: str, tokens: int) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        read({name: tokens})
    assert read({name: 10**12})
