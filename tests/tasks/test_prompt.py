"""The canonical prompt and answer."""

import json
from typing import Any

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.records import Complexity, Message
from flywheel.tasks.prompt import prompt_messages, reference_answer, signature, without_demonstrations
from flywheel.tasks.source import BenchmarkTask, ExpectedCall, Split, Tool

BOOK = Tool(
    name="rooms.book",
    description="Books a room. Needs a licence.",
    parameters={
        "type": "dict",
        "properties": {
            "size": {"type": "integer"},
            "days": {"type": "array", "items": {"type": "string"}},
            "view": {"type": "string", "enum": ["sea", "yard"]},
            "guest": {"type": "dict", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        },
        "required": ["size", "guest"],
    },
)


def task(*, question: tuple[Message, ...] | None = None, **arguments: tuple[Any, ...]) -> BenchmarkTask:
    return BenchmarkTask(
        id="test:1",
        task_type="tool-calling",
        category="test",
        complexity=Complexity.STANDARD,
        question=question or (Message(role="user", content="A room for Ann, 40, please."),),
        tools=(BOOK,),
        expected=(ExpectedCall(name="rooms.book", arguments=arguments),),
        split=Split.TRAIN,
    )


def test_a_signature_says_types_choices_and_what_is_optional() -> None:
    assert signature(BOOK) == (
        'rooms.book(size: int, days?: list[str], view?: "sea"|"yard", guest: {name: str, age: int}): Books a room.'
    )


def test_the_question_comes_last_and_after_its_tools() -> None:
    messages = prompt_messages(task(size=(2,)))
    assert [message.role for message in messages] == ["system", "user"]
    assert (messages[-1].content or "").splitlines()[-1] == "A room for Ann, 40, please."
    assert "rooms.book(" in (messages[-1].content or "")


def test_the_tasks_own_system_message_is_kept() -> None:
    own = (Message(role="system", content="Be brief."), Message(role="user", content="Hello"))
    assert (prompt_messages(task(question=own, size=(2,)))[0].content or "").endswith("\nBe brief.")


def test_demonstrations_are_marked_and_training_drops_them() -> None:
    zero_shot, few_shot = prompt_messages(task(size=(2,))), prompt_messages(task(size=(2,)), "few-shot")
    assert len(few_shot) == len(zero_shot) + 6
    assert without_demonstrations(few_shot) == zero_shot


def test_the_reference_answer_leaves_optional_arguments_out_and_takes_the_first_alternative() -> None:
    asked = task(size=(2, 3), view=("sea", ""), guest=({"name": ["Ann", "Ms Ann"], "age": [40], "pet": ["", "dog"]},))
    answer = reference_answer(asked)
    assert json.loads(answer) == {"name": "rooms.book", "arguments": {"size": 2, "guest": {"name": "Ann", "age": 40}}}
    assert check(asked.expected, asked.tools, answer).exact
