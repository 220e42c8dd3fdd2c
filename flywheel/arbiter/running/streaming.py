"""Text on its way: pieces of answers while they are being written."""

import logging
import threading
from collections.abc import Callable

from msgspec import Struct

LOGGER = logging.getLogger(__name__)


class TextDelta(Struct, frozen=True, kw_only=True):
    """A piece of an answer. A higher ``attempt`` or ``iteration`` begins the answer anew; both count from 1."""

    attempt: int
    iteration: int
    text: str


OnText = Callable[[TextDelta], None]
"""Called from the threads of agents, one call after the other."""


class Stream:
    """The pieces of one call, until it ends or is given up: what comes later reaches nobody."""

    def __init__(self, on_text: OnText, *, attempt: int, iteration: int) -> None:
        self._on_text = on_text
        self._attempt, self._iteration = attempt, iteration
        self._lock = threading.Lock()
        self._open = True

    def send(self, text: str) -> None:
        """Pass a piece on. Where the caller cannot take it the answer goes on without: it is no fault of the agent."""
        with self._lock:
            if not self._open or not text:
                return
            try:
                self._on_text(TextDelta(attempt=self._attempt, iteration=self._iteration, text=text))
            except Exception:
                LOGGER.warning("what takes the text of answers failed; it gets no more of this one", exc_info=True)
                self._open = False

    def close(self) -> None:
        """Let nothing through any more."""
        with self._lock:
            self._open = False
