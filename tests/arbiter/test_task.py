"""What a service hands over."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from flywheel.arbiter.logs import no_choice
from flywheel.arbiter.outcomes import routed_task
from flywheel.arbiter.task import Task
from flywheel.collection.collector import utc_now
from flywheel.records import Complexity, Message, ToolCall
from flywheel.tasks.source import Tool

ASKED = (Message(role="user", content="How high is it?"),)
SEARCH = Tool(name="search", description="Searches.", parameters={})


def test_routing_learns_from_the_log_what_it_knew_of_the_task() -> None:
    task = Task(
        id="1", type="research", messages=ASKED, tools=(SEARCH,), languages=("de",), specializations=("law",),
        requirements=("web",),
    )  # fmt: skip
    decision = no_choice(task, agent_id="a", tenant_id="acme", timestamp=utc_now(), reason="")
    assert decision.requirements == ("tool:search", "language:de", "specialization:law", "web")
    # What keeps an agent out teaches nothing and is not logged.
    assert routed_task(decision) == replace(task.routed(), needs=())


@pytest.mark.parametrize(
    ("fields", "complexity"),
    [
        ({}, Complexity.TRIVIAL),
        ({"tools": (SEARCH,)}, Complexity.STANDARD),
        ({"tools": (SEARCH,) * 3}, Complexity.COMPLEX),
        ({"tools": (SEARCH,), "messages": ASKED * 2}, Complexity.COMPLEX),
        ({"tools": (SEARCH,) * 3, "complexity": Complexity.TRIVIAL}, Complexity.TRIVIAL),
        ({"messages": (Message(role="user", content="x" * 4_000),)}, Complexity.STANDARD),
    ],
)
def test_complexity_is_what_is_stated_or_what_the_rules_say(fields: dict[str, object], complexity: Complexity) -> None:
    task = Task(**{"id": "1", "type": "research", "messages": ASKED, **fields})  # type: ignore[arg-type]
    assert task.assessed_complexity is complexity


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": ""}, "1 to 480 characters"),
        ({"id": "a#attempt-1"}, "no '#attempt-'"),
        ({"type": ""}, "no type"),
        ({"messages": (Message(role="system", content="Be kind."),)}, "asks nothing"),
        ({"deadline": datetime(2026, 3, 2)}, "no time zone"),
    ],
)
def test_a_task_that_cannot_be_run_is_none(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Task(**{"id": "1", "type": "research", "messages": ASKED, **fields})  # type: ignore[arg-type]


def test_agents_that_are_asked_in_text_get_earlier_calls_and_their_results_in_words() -> None:
    asked = (
        Message(role="user", content="How warm is it?"),
        Message(role="assistant", tool_calls=(ToolCall(id="1", name="weather", arguments='{"city": "Rome"}'),)),
        Message(role="tool", tool_call_id="1", content="21"),
    )
    text = Task(id="t", type="research", messages=asked).asked.question
    assert [(message.role, message.content) for message in text] == [
        ("user", "How warm is it?"),
        ("assistant", '{"name": "weather", "arguments": {"city": "Rome"}}'),
        ("user", "Result of weather:\n21"),
    ]
    assert Task(id="t", type="research", messages=asked, dialect="chat").asked.question == asked
