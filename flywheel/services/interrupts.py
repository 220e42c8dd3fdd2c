"""One way out: Ctrl-C, SIGTERM and a closed terminal all unwind the stack, and nothing interrupts the clean-up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked the process to stop. Not an ``Exception``: nothing that handles errors may hold it up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The shell's convention: 128 and the signal's number."""
        return 128 + self.number


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn stopping signals into ``Interrupted``, once: what follows the first is the clean-up."""

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        for name in STOPPING_SIGNALS:
            signal.signal(name, signal.SIG_IGN)
        raise Interrupted(number)

    heeded = [name for name in STOPPING_SIGNALS if signal.getsignal(name) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {name: signal.signal(name, interrupt) for name in heeded}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
