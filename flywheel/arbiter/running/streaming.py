"""Answers on their way: pieces of text and of tool calls while they are being written."""

import logging
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from flywheel.arbiter.agents.strategy import CallPiece, Piece
from flywheel.records import RoutingDecision

LOGGER = logging.getLogger(__name__)


class TextDelta(Struct, frozen=True, kw_only=True):
    """A piece of an answer: of its text, or of a tool call.

    A higher ``attempt`` or ``iteration`` begins the answer anew; both count from 1.
    """

    attempt: int
    iteration: int
    text: str = ""
    call: CallPiece | None = None


OnText = Callable[[TextDelta], None]
"""Called from the threads of agents, one call after the other."""
OnDecision = Callable[[RoutingDecision], None]
"""Called with each decision before the agent is asked."""


class Watch(Struct, frozen=True, kw_only=True):
    """How a caller follows a task while it runs.

    Attributes:
        on_text: gets the text of answers on its way.
        on_decision: gets whom the task is given to, before that agent is asked.
        on_accepted: is called when the id is known to be this task's, which runs or has run, here or elsewhere; more
            than once while another caller's run is waited for.
        irrevocable: whether what ``on_text`` got cannot be taken back: after the first piece no other answer is begun,
            neither by that agent nor by another.
    """

    on_text: OnText | None = None
    on_decision: OnDecision | None = None
    on_accepted: Callable[[], object] | None = None
    irrevocable: bool = False

    def accepted(self) -> None:
        """Tell that the task has its id; where the caller cannot take it the task goes on without."""
        if self.on_accepted is None:
            return
        try:
            self.on_accepted()
        except Exception:
            LOGGER.warning("what is told that a task is accepted failed", exc_info=True)

    def decided(self, decision: RoutingDecision) -> None:
        """Tell of a decision; where the caller cannot take it the task goes on without."""
        if self.on_decision is None:
            return
        try:
            self.on_decision(decision)
        except Exception:
            LOGGER.warning("what takes decisions failed", exc_info=True)


UNWATCHED = Watch()


class Stream:
    """The pieces of one call, until it ends or is given up: what comes later reaches nobody."""

    def __init__(self, on_text: OnText | None, *, attempt: int, iteration: int) -> None:
        self._on_text = on_text
        self._followed = on_text is not None
        self._attempt, self._iteration = attempt, iteration
        self._lock = threading.Lock()
        self._open = True
        self.begun = False
        """Whether a piece was passed on."""
        self.last_s: float | None = None
        """When the last piece or sign of life came, by ``time.monotonic``; None before the first one.

        None too where nobody wanted pieces: then the answer has its agent's time, however lively it is written.
        """

    @property
    def wanted(self) -> bool:
        """Whether anybody takes pieces."""
        return self._on_text is not None

    @property
    def is_open(self) -> bool:
        """Whether the call goes on."""
        return self._open

    def send(self, piece: Piece) -> None:
        """Pass a piece on; an empty one is a sign of life.

        Where the caller cannot take it the answer goes on without: it is no fault of the agent.
        """
        with self._lock:
            if self._followed:
                self.last_s = time.monotonic()
            if not self._open or not piece or self._on_text is None:
                return
            self.begun = True
            text, call = (piece, None) if isinstance(piece, str) else ("", piece)
            try:
                self._on_text(TextDelta(attempt=self._attempt, iteration=self._iteration, text=text, call=call))
            except Exception:
                LOGGER.warning("what takes the text of answers failed; it gets no more of this one", exc_info=True)
                self._on_text = None

    def close(self) -> None:
        """Let nothing through any more."""
        with self._lock:
            self._open = False
