"""Conversations with tools for models that know tools in words alone."""

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.agents.text_calls import in_text, with_calls
from flywheel.records import Complexity, Message, ToolCall
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import AgentTask, Tool

ADD = Tool(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
ASKED = Message(role="user", content="What is 1 plus 2?")
CALLED = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add", arguments='{"a": 1}'),))


def chat(*messages: Message, **options: object) -> AgentTask:
    return AgentTask(
        id="t1",
        task_type="chat",
        complexity=Complexity.STANDARD,
        question=messages,
        tools=(ADD,),
        dialect="chat",
        options=GenerationOptions(**options),  # type: ignore[arg-type]
    )


def answer(text: str) -> Answer:
    return Answer(text=text, messages=(), prompt_tokens=1, output_tokens=1, latency_ms=1.0)


def test_calls_and_results_of_earlier_turns_are_words() -> None:
    task = in_text(chat(ASKED, CALLED, Message(role="tool", tool_call_id="c1", content="3")))
    assert [message.content for message in task.question] == [
        "What is 1 plus 2?",
        '{"name": "add", "arguments": {"a": 1}}',
        "Result of add:\n3",
    ]
    assert "add(a?: int): Adds." in (prompt_messages(task)[-1].content or "")


def test_an_answer_that_is_nothing_but_calls_of_the_tools_is_calls() -> None:
    found = with_calls(answer('{"name": "add", "arguments": {"a": 1}}'), chat(ASKED))
    assert (found.text, found.finish_reason) == ("", "tool_calls")
    [call] = found.tool_calls
    assert (call.name, call.arguments) == ("add", '{"a": 1}')
    assert call.id is not None
    assert with_calls(answer('{"name": "add", "arguments": {"a": 1}}'), chat(ASKED)) == found


def test_words_and_calls_of_what_is_no_tool_stay_words() -> None:
    for text in ("It is 3.", 'I would call {"name": "add", "arguments": {"a": 1}}', '{"name": "sub", "arguments": {}}'):
        assert with_calls(answer(text), chat(ASKED)) == answer(text)


def test_where_no_tool_may_be_called_none_is_offered_and_none_is_found() -> None:
    task = chat(ASKED, tool_choice="none")
    assert in_text(task).tools == ()
    assert with_calls(answer('{"name": "add", "arguments": {}}'), task).tool_calls == ()
