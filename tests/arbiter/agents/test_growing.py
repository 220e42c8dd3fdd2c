"""Of an answer that grows only what is sure is handed out."""

from collections.abc import Iterator, Sequence

import pytest

from flywheel.arbiter.agents.growing import GrowingAnswer, sure
from flywheel.arbiter.agents.strategy import Answer, CallPiece, Piece, Pieces
from flywheel.records import Complexity, Message, ToolCall
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.source import AgentTask, Tool


class Taker:
    """Takes pieces, until it is closed."""

    wanted = True

    def __init__(self) -> None:
        self.is_open = True
        self.pieces: list[Piece] = []

    def send(self, piece: Piece) -> None:
        self.pieces.append(piece)


def asked(*, stop: Sequence[str] = (), tools: tuple[Tool, ...] = ()) -> AgentTask:
    return AgentTask(
        id="t1",
        task_type="chat",
        complexity=Complexity.TRIVIAL,
        question=(Message(role="user", content="Say something."),),
        tools=tools,
        dialect="chat",
        options=GenerationOptions(stop=tuple(stop)),
    )


def answer(text: str, *calls: ToolCall) -> Answer:
    return Answer(text=text, messages=(), prompt_tokens=1, output_tokens=1, latency_ms=1.0, tool_calls=calls)


def grown(task: AgentTask, to: Pieces, *texts: str) -> Iterator[bool]:
    growing = GrowingAnswer(task, to)
    yield from map(growing.is_over, texts)
    growing.finish(answer(texts[-1]))


def test_what_is_new_is_passed_on_and_half_a_character_waits_for_its_other_half() -> None:
    taker = Taker()
    assert not any(grown(asked(), taker, "Gr", "Gr\ufffd", "Grün", "Grün \ufffd"))
    assert taker.pieces == ["Gr", "", "ün", " ", "\ufffd"]


def test_a_stop_sequence_ends_the_answer_and_none_of_it_is_passed_on() -> None:
    taker = Taker()
    over = [*grown(asked(stop=["END", "N "]), taker, "the E", "the EN", "the ENTRY. E", "the ENTRY. END of it")][:4]
    assert over == [False, False, False, True]
    assert taker.pieces[:4] == ["the ", "", "ENTRY. ", ""]


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("a b", (), 3),
        ("a b", ("c",), 3),
        ("a b", ("b",), 3),  # a whole one is found before this is asked
        ("a b", ("bc", "a bd"), 0),
        ("a b\ufffd\ufffd", ("bc",), 2),
        ("", ("x",), 0),
    ],
)
def test_what_may_begin_a_stop_sequence_is_not_sure(text: str, stops: tuple[str, ...], expected: int) -> None:
    assert sure(text, stops) == expected


def test_what_may_turn_out_to_be_calls_is_passed_on_at_its_end() -> None:
    taker = Taker()
    growing = GrowingAnswer(asked(tools=(Tool(name="weather", description="", parameters={}),)), taker)
    assert not growing.is_over('{"name": "wea')
    assert taker.pieces == [""], "a sign of life"
    growing.finish(answer("", ToolCall(id="1", name="weather", arguments="{}")))
    assert taker.pieces[1:] == ["", CallPiece(index=0, id="1", name="weather", arguments="{}")]


def test_an_answer_that_nobody_waits_for_is_over() -> None:
    taker = Taker()
    growing = GrowingAnswer(asked(), taker)
    assert not growing.is_over("a")
    taker.is_open = False
    assert growing.is_over("a b")


def test_an_answer_whose_taker_has_failed_gives_signs_of_life_to_its_end() -> None:
    taker = Taker()
    growing = GrowingAnswer(asked(), taker)
    growing.is_over("a")
    taker.wanted = False
    assert not growing.is_over("a b")
    assert taker.pieces == ["a", " b"]
