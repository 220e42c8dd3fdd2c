"""Known cheats in texts, function calls and tool calls, each through the real evaluators: none scores above the honest
answer.

Every cheat does the task as well as the honest answer, or tries to get around it. What it gets for that is asserted.
"""

import hashlib
import json
from typing import Any

import pytest

from flywheel.records import Complexity, Message, ToolCall
from flywheel.settings import TasksSettings
from flywheel.tasks.catalog import environment_of
from flywheel.tasks.environment import MadeCall, Observation, Run, Verification, mandatory_check
from flywheel.tasks.source import SourceTask, Split
from flywheel.tasks.text_transformation.environment import TextTask
from tests.arbiter.evaluation.hacking.playing import FILLER, Saying, findings, logged
from tests.arbiter.evaluation.published import verdict_on
from tests.fakes import benchmark_task

# --- texts ----------------------------------------------------------------------------------------------------------


def text_environment() -> Any:
    return environment_of("text-transformation", TasksSettings(sources=("text-transformation",)))


@pytest.mark.parametrize("cheat", ["padded", "facts alone", "everything twice", "silence"])
def test_no_way_around_rewriting_a_text_pays(cheat: str) -> None:
    environment = text_environment()
    for task in environment.tasks()[::60]:
        assert isinstance(task, TextTask)
        text = {
            "padded": f"{task.plain} {FILLER * 10}",
            "facts alone": " ".join(task.facts),
            "everything twice": f"{task.plain} {task.plain} {task.plain}",
            "silence": "",
        }[cheat]
        honest, _ = logged(environment, task, task.plain)
        found, _ = logged(environment, task, text)
        assert honest.passed_all_mandatory
        assert not found.passed_all_mandatory
        assert found.overall_score < honest.overall_score


# --- function calls -------------------------------------------------------------------------------------------------

RIGHT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'


@pytest.mark.parametrize(
    "text",
    [
        "\n".join([RIGHT] * 2),
        "\n".join([RIGHT] * 200),
        f'{RIGHT}\n{{"name": "noop", "arguments": {{}}}}',
        "\n".join([RIGHT, *(f'{{"name": "add", "arguments": {{"a": {number}, "b": 2}}}}' for number in range(50))]),
        RIGHT + " " * 20_000,
        RIGHT.replace(" ", " " * 3_000),
        f"{FILLER * 20}\n{RIGHT}",
        f"{RIGHT}\n{FILLER}",
        '{"name": "add", "arguments": {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}}',
    ],
    ids=["twice", "loops", "dummy call", "guesses", "blanks", "blanks within", "padded", "chatty", "all values"],
)
def test_no_answer_of_calls_scores_above_the_calls_alone(text: str) -> None:
    def reward(said: str) -> float:
        (answer,) = Saying(said).answer([benchmark_task()])
        return verdict_on(benchmark_task(), answer).quality

    assert reward(text) < reward(RIGHT)


# --- tools ----------------------------------------------------------------------------------------------------------


class Archive:
    """An environment with tools that all answer: only what is done at the end is verified."""

    name = "archive"

    def task(self) -> SourceTask:
        return SourceTask(
            id="archive:1",
            task_type="tool-calling",
            category="archive",
            complexity=Complexity.STANDARD,
            question=(Message(role="user", content="In which drawer is the deed? Answer with its number."),),
            split=Split.TRAIN,
        )

    def run(self, task: SourceTask) -> Run:
        return ArchiveRun(task)


class ArchiveRun:
    def __init__(self, task: SourceTask) -> None:
        self.task = task
        self.done = 0.0

    def opening(self) -> tuple[Message, ...]:
        return self.task.question

    def known_answer(self) -> str:
        return '{"name": "find", "arguments": {"what": "deed"}}'

    def step(self, answer: str) -> Observation:
        self.done = float("drawer 4711" in answer)
        try:
            calls = [json.loads(line) for line in answer.splitlines()]
        except ValueError:
            return Observation(format=1.0, information_gain=0.0, progress=self.done)
        made = [ToolCall(name=call["name"], arguments=json.dumps(call["arguments"])) for call in calls]
        results = tuple(Message(role="tool", name=call.name, content=said_by(call)) for call in made)
        return Observation(
            messages=results, calls=tuple(MadeCall(call=c, right=True) for c in made), format=1.0, information_gain=0.0
        )

    def verify(self) -> Verification:
        return Verification(
            checks=(mandatory_check("found", self.done),),
            tool=1.0,
            task=self.done,
            minimal=1.0,
            reason="as expected" if self.done else "the drawer is another",
        )


def said_by(call: ToolCall) -> str:
    if call.name == "find" and "deed" in call.arguments:
        return "The deed lies in drawer 4711, folder 12."
    digest = hashlib.sha256(call.arguments.encode()).hexdigest()
    return f"Kept by {digest[:8]}, seen by {digest[8:16]}, sealed by {digest[16:24]}, bound by {digest[24:32]}."


FIND, ANSWER = '{"name": "find", "arguments": {"what": "deed"}}', "It is in drawer 4711."
TOOL_CHEATS = {
    "the same call over and over": (*([FIND] * 6), ANSWER),
    "the same call in one turn": ("\n".join([FIND] * 6), ANSWER),
    "a loop of two calls": (*([FIND, '{"name": "keeper", "arguments": {"of": "deed"}}'] * 5), ANSWER),
    "calls that say nothing": (
        *(f'{{"name": "find{n}", "arguments": {{"what": ""}}}}' for n in range(4)),
        FIND,
        ANSWER,
    ),
    "calls of nothing": (*(f'{{"name": "noop", "arguments": {{"n": {n}}}}}' for n in range(8)), FIND, ANSWER),
    "calls nobody needs": (
        *(f'{{"name": "register", "arguments": {{"volume": "{n}{n}{n}"}}}}' for n in range(12)),
        FIND,
        ANSWER,
    ),
}


@pytest.mark.parametrize("texts", TOOL_CHEATS.values(), ids=TOOL_CHEATS)
def test_calls_for_their_own_sake_lower_the_reward_by_more_than_they_cost(texts: tuple[str, ...]) -> None:
    environment = Archive()
    honest, _ = logged(environment, environment.task(), FIND, ANSWER)
    cheat, _ = logged(environment, environment.task(), *texts)
    assert (findings(honest), honest.passed_all_mandatory, cheat.passed_all_mandatory) == (set(), True, True)
    assert findings(cheat) & {"repeated_calls", "loop", "dummy_calls"}
    assert cheat.rubric_scores.tool <= 0.5
    assert cheat.overall_score < honest.overall_score - 0.1
