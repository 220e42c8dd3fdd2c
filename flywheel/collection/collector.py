"""The collector: an agent service's side of the pool. It logs and never gets in the agent's way."""

import errno
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from flywheel.collection.live_segment import recover_segments
from flywheel.collection.writer import SegmentWriter
from flywheel.errors import SegmentError
from flywheel.records import Evaluation, Execution, Feedback, Log, RoutingDecision, encode


def utc_now() -> datetime:
    """The system's clock."""
    return datetime.now(UTC)


class Collector:
    """Appends the logs of one tenant to segments. Safe for threads.

    Every method returns whether the log was written. A log that cannot be is dropped and counted by reason in
    ``drops``; no failure of disk or encoding reaches the agent. Use it as a context manager, or call ``close``: the
    pool reads closed segments.
    """

    def __init__(
        self, segments_dir: Path, tenant_id: str, *, clock: Callable[[], datetime] = utc_now, max_age_s: float = 300.0
    ) -> None:
        self._folder = segments_dir
        self._tenant_id = tenant_id
        self._writer = SegmentWriter(segments_dir, clock=clock, max_age_s=max_age_s)
        self._drops: Counter[str] = Counter()
        self._drops_lock = threading.Lock()
        with suppress(OSError):  # what cannot be closed now waits for the next collector; nothing is lost
            recover_segments(segments_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def drops(self) -> dict[str, int]:
        """How many logs were dropped, by reason."""
        with self._drops_lock:
            return dict(self._drops)

    def log_routing_decision(self, decision: RoutingDecision) -> bool:
        """Log whom the arbiter chose, and why."""
        return self._log(decision)

    def log_execution(self, execution: Execution) -> bool:
        """Log how the agent did."""
        return self._log(execution)

    def log_evaluation(self, evaluation: Evaluation) -> bool:
        """Log what the evaluator found."""
        return self._log(evaluation)

    def log_feedback(self, feedback: Feedback) -> bool:
        """Log what people or systems said later."""
        return self._log(feedback)

    def close(self) -> None:
        """Close the current segment. Logging may go on: it opens another."""
        with suppress(OSError):  # the segment stays open and the next collector of this folder closes it
            self._writer.close()

    def _log(self, record: Log) -> bool:
        try:
            payload = encode(msgspec.structs.replace(record, tenant_id=self._tenant_id))
        except (TypeError, ValueError) as error:  # a value JSON has no form for, or text that is not Unicode
            return self._drop(f"not encodable: {type(error).__name__}")
        try:
            self._writer.append(payload)
        except SegmentError:
            return self._drop("too large")
        except OSError as error:
            return self._drop(f"disk: {errno.errorcode.get(error.errno or 0, str(error))}")
        return True

    def _drop(self, reason: str) -> bool:
        with self._drops_lock:
            self._drops[reason] += 1
        return False
