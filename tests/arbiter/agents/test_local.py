"""The local agent generates with a real, tiny model."""

from pathlib import Path
from typing import Any

import pytest

from flywheel.arbiter.agents.build import AgentFactory
from flywheel.arbiter.agents.local import LocalAgent
from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.registry import AgentProfile
from flywheel.records import Complexity, Message
from flywheel.settings import Settings
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import AgentTask, BenchmarkTask, Split
from tests.arbiter.agents.test_growing import Taker

pytest.importorskip("torch", reason="the extra [training] is not installed")


@pytest.fixture(scope="module")
def tiny_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.load(profile="smoke", home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def tasks(tiny_settings: Settings) -> list[BenchmarkTask]:
    from flywheel.tasks.catalog import load_source

    return [task for task in load_source(tiny_settings).tasks() if task.split is Split.TRAIN][:6]


def test_every_task_is_answered_with_its_prompt_and_token_counts(
    tiny_settings: Settings, tasks: list[BenchmarkTask]
) -> None:
    agent = AgentFactory(tiny_settings)(AgentProfile(id="tiny", kind="local", model="base", prompt="few-shot"))
    seen: list[tuple[int, int]] = []
    answers = agent.answer(tasks, on_progress=lambda done, total: seen.append((done, total)))
    assert [answer.messages for answer in answers] == [prompt_messages(task, "few-shot") for task in tasks]
    assert seen[-1] == (len(tasks), len(tasks))
    for answer in answers:
        assert answer.failure_reason is None
        assert answer.prompt_tokens > 0
        assert 0 < answer.output_tokens <= tiny_settings.model.max_new_tokens
        assert answer.latency_ms > 0


def test_sampled_answers_depend_on_the_tasks_alone(tiny_settings: Settings, tasks: list[BenchmarkTask]) -> None:
    warm = AgentFactory(tiny_settings)(AgentProfile(id="warm", kind="local", model="base", temperature=1.0))
    first = [answer.text for answer in warm.answer(tasks)]
    warm.answer(tasks[:2])
    assert [answer.text for answer in warm.answer(tasks)] == first
    greedy = AgentFactory(tiny_settings)(AgentProfile(id="greedy", kind="local", model="base"))
    assert [answer.text for answer in greedy.answer(tasks)] != first


def test_agents_of_one_folder_share_the_loaded_model(
    tiny_settings: Settings, tasks: list[BenchmarkTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flywheel.training import generation

    loaded: list[Path] = []

    class Counting(generation.Generator):
        def __init__(self, model_dir: Path) -> None:
            loaded.append(model_dir)
            super().__init__(model_dir)

    monkeypatch.setattr(generation, "Generator", Counting)
    make = AgentFactory(tiny_settings)
    for temperature in (0.0, 1.0):
        make(AgentProfile(id=f"t{temperature}", kind="local", model="base", temperature=temperature)).answer(tasks[:1])
    assert len(loaded) == 1


def chat(**options: Any) -> AgentTask:
    return AgentTask(
        id="t1",
        task_type="chat",
        complexity=Complexity.TRIVIAL,
        question=(Message(role="user", content="Say something."),),
        dialect="chat",
        options=GenerationOptions(**options),
    )


def test_a_chat_says_how_long_an_answer_may_be_and_where_it_ends(tiny_settings: Settings) -> None:
    def asked(**options: Any) -> Answer:
        [answer] = AgentFactory(tiny_settings)(AgentProfile(id="tiny", kind="local", model="base")).answer(
            [chat(**options)]
        )
        return answer

    short = asked(max_tokens=3, temperature=1.5, seed=1)
    assert (short.output_tokens, short.finish_reason) == (3, "length")
    assert asked(max_tokens=3, temperature=1.5, seed=1).text == short.text
    assert asked(max_tokens=3, temperature=1.5, seed=2).text != short.text
    whole = asked(temperature=1.5, seed=1)
    letter = whole.text[5]
    stopped = asked(temperature=1.5, seed=1, stop=(letter,))
    assert (stopped.text, stopped.finish_reason) == (whole.text[: whole.text.index(letter)], "stop")
    assert stopped.output_tokens <= whole.output_tokens
    assert asked(temperature=1.5, seed=1, stop=(whole.text[:1],)).output_tokens == 1, "nothing is written for nobody"


def test_an_answer_is_handed_out_while_it_is_written(tiny_settings: Settings) -> None:
    agent = AgentFactory(tiny_settings)(AgentProfile(id="tiny", kind="local", model="base")).agent
    assert isinstance(agent, LocalAgent)
    task, taker = chat(temperature=1.5, seed=1), Taker()
    streamed, [whole] = agent.stream(task, to=taker), agent.answer([task])
    assert (streamed.text, streamed.output_tokens) == (whole.text, whole.output_tokens)
    assert "".join(map(str, taker.pieces)) == whole.text
    assert len([piece for piece in taker.pieces if piece]) > 3


def test_an_answer_that_is_given_up_ends_with_its_next_token(tiny_settings: Settings) -> None:
    agent = AgentFactory(tiny_settings)(AgentProfile(id="tiny", kind="local", model="base")).agent
    assert isinstance(agent, LocalAgent)
    taker = Taker()
    taker.is_open = False
    assert agent.stream(chat(temperature=1.5, seed=1), to=taker).output_tokens == 1
