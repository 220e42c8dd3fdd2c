"""A command of ours in a process of its own, so that the memory of its model is free when it ends."""

import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from flywheel.errors import ServiceError
from flywheel.quickstart.progress import ProgressLine
from flywheel.services.processes import last_lines

POLL_S = 1.0


def run_command(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    on_progress: Callable[[ProgressLine], None],
    check: Callable[[], None],
) -> None:
    """Run ``flywheel ARGUMENTS`` to its end and pass on the progress it prints, one JSON object a line.

    Args:
        arguments: of the command line.
        environment: of the process.
        log: where its messages go.
        on_progress: called for every line.
        check: called about once a second; may raise to give up.

    Raises:
        ServiceError: it failed; the message holds the end of its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as messages:
        process = subprocess.Popen(
            [sys.executable, "-m", "flywheel.cli", *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        for line in Lines(process.stdout, check):
            on_progress(msgspec.json.decode(line, type=ProgressLine))
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if code != 0:
        raise ServiceError(f"`flywheel {' '.join(arguments)}` failed. The end of {log}:\n{last_lines(log)}")


class Lines:
    """The lines of a stream as they come, read by a thread, with ``check`` called while none comes."""

    def __init__(self, stream: IO[bytes], check: Callable[[], None]) -> None:
        self._queue: queue.Queue[bytes | None] = queue.Queue()
        self._check = check
        threading.Thread(target=self._read, args=(stream,), name="progress", daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._queue.put(line)
        self._queue.put(None)

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> bytes:
        while True:
            try:
                line = self._queue.get(timeout=POLL_S)
            except queue.Empty:
                self._check()
                continue
            if line is None:
                raise StopIteration
            return line
