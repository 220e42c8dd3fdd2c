"""Which of the heavy parts of a task's logs are kept: a share of the tasks, the same ones in every process."""

import zlib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from flywheel.records import Evaluation, Execution, Log

Share = Annotated[float, Meta(ge=0, le=1)]


class Sampling(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of tasks, 0–1, whose heavy parts are kept. Routing, execution and evaluation themselves always are.

    Attributes:
        conversation: ``messages`` of executions.
        diff: ``minimal_diff_metrics`` of evaluations.
        judge: ``turn_data`` of evaluations, and the ``feedback`` of an execution's iterations.
    """

    conversation: Share = 1.0
    diff: Share = 1.0
    judge: Share = 1.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"sampling.{name} is a share of tasks between 0 and 1, not {getattr(self, name)}")

    def applied(self, record: Log) -> Log:
        """The record without the parts that its task is not chosen for.

        One number per task decides for all parts, so a task that keeps a part of share 0.1 keeps every part of a
        larger share: whole tasks remain, not parts of different ones.
        """
        if not isinstance(record, Execution | Evaluation) or self == EVERYTHING:
            return record
        place = zlib.crc32(record.task_id.encode()) / 2**32
        if isinstance(record, Execution):
            kept = msgspec.structs.replace(record, messages=()) if place >= self.conversation else record
            if place >= self.judge and kept.iterations:
                iterations = tuple(msgspec.structs.replace(one, feedback=None) for one in kept.iterations)
                kept = msgspec.structs.replace(kept, iterations=iterations)
            return kept
        if place >= self.diff:
            record = msgspec.structs.replace(record, minimal_diff_metrics=None)
        return msgspec.structs.replace(record, turn_data=()) if place >= self.judge else record


EVERYTHING = Sampling()
