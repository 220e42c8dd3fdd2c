"""Answers that grow on this machine: what of them can be handed out already, and where they end."""

from collections.abc import Sequence

from flywheel.arbiter.agents.strategy import Answer, Pieces, send_whole
from flywheel.arbiter.agents.text_calls import may_call
from flywheel.tasks.source import AgentTask

HALF = "\ufffd"
"""What the bytes of a character that is not whole yet read as."""


class Nobody:
    """For answers that are wanted as a whole."""

    wanted = False
    is_open = True

    def send(self, piece: object) -> None:
        """Pass nothing on."""


class GrowingAnswer:
    """An answer of which one sees the text so far again and again, and passes on what is new and sure of it.

    Not sure is half a character, and what may be the beginning of a stop sequence. Where the task has tools the whole
    answer may turn out to be calls: it is passed on at its end.
    """

    def __init__(self, task: AgentTask, to: Pieces) -> None:
        self._stop = task.options.stop
        self._to = to
        self._in_pieces = not may_call(task)
        self._passed_on = 0

    def is_over(self, text: str) -> bool:
        """Pass on what is new; whether the answer ends here: at a stop sequence, or since nobody waits for it."""
        end = first_stop(text, self._stop)
        self._pass_on(text[: sure(text, self._stop) if end is None else end])
        return end is not None or not self._to.is_open

    def finish(self, answer: Answer) -> None:
        """Pass on what is left of it."""
        if self._in_pieces:
            self._pass_on(answer.text)
        else:
            send_whole(answer, self._to)

    def _pass_on(self, text: str) -> None:
        new = text[self._passed_on :] if self._in_pieces else ""
        self._to.send(new)  # also where it is empty, as a sign of life
        self._passed_on += len(new)


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first stop sequence begins; None where there is none."""
    return min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)


def sure(text: str, stops: Sequence[str]) -> int:
    """How many characters of a growing text stay, whatever comes: a stop sequence may have begun behind them."""
    whole = text.rstrip(HALF)
    begun = (length for stop in stops for length in range(1, len(stop)) if whole.endswith(stop[:length]))
    return len(whole) - max(begun, default=0)
