"""The collector: an agent service's side of the pool. It logs and never gets in the agent's way."""

import asyncio
import copy
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from flywheel.collection.dead_letters import FOLDER as DEAD_LETTERS
from flywheel.collection.delivery import Delivery
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.sampling import Sampling
from flywheel.collection.writer import Durability, SegmentWriter
from flywheel.pool.anonymization.verdicts import signed_fields, without_signed
from flywheel.records import Caws, Evaluation, Execution, Feedback, Log, RoutingDecision, encode

if TYPE_CHECKING:
    from flywheel.collection.task_log import TaskLog
    from flywheel.pool.anonymization.detection import Detection
    from flywheel.pool.anonymization.edge import Edge

Wrapped = TypeVar("Wrapped")
LOGGER = logging.getLogger("flywheel.collection")
KEYS = ("log", "timestamp", "tenantId", "taskId", "agentId", "selectedAgentId", "taskType", "source", "cachedFrom")
"""By these the pool joins, counts and finds tasks: they stay as they are."""


def utc_now() -> datetime:
    """The system's clock."""
    return datetime.now(UTC)


class Collector:
    """Appends the logs of one tenant to segments. Safe for threads, forks and several processes on one folder.

    Every method returns whether the log was written, and none raises: no failure of disk, encoding or detection
    reaches the agent. What cannot be written waits in memory (``waiting``), is tried twice more, and then kept as dead
    letters; what is lost is counted by reason in ``drops``. Use it as a context manager, or call ``close``: the pool
    reads closed segments.

    Args:
        segments_dir: folder of the segments.
        tenant_id: stamped on every log.
        clock: the time.
        durability: ``process`` or ``machine``, as of ``SegmentWriter``.
        max_age_s: of a segment before the pool gets it.
        patience_s: how long a log waits for writes of other threads before it joins those that wait in memory.
        remove_identifiers: secrets and direct identifiers are replaced before the first write.
        detection: types of the team's own beside the built-in ones (``detection_of(settings.anonymization.types)``).
        sampling: which heavy parts are kept; None: as configuration says (``collection.sampling``), else all.
        dead_letters: folder of its own for them, best on another disk; None: as configuration says
            (``collection.dead_letters``), else one below ``segments_dir``.
        max_waiting_bytes: of memory for what waits.

    Raises:
        ConfigurationError: the section ``collection`` cannot be used; the message names the field.
    """

    def __init__(
        self,
        segments_dir: Path,
        tenant_id: str,
        *,
        clock: Callable[[], datetime] = utc_now,
        durability: Durability = "process",
        max_age_s: float = 300.0,
        patience_s: float = 0.1,
        remove_identifiers: bool = True,
        detection: "Detection | None" = None,
        sampling: Sampling | None = None,
        dead_letters: Path | None = None,
        max_waiting_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        segments_dir = Path(segments_dir)
        if sampling is None or dead_letters is None:
            from flywheel.collection.settings import configured

            settings = configured()
            sampling = settings.sampling if sampling is None else sampling
            dead_letters = dead_letters or settings.dead_letters or segments_dir / DEAD_LETTERS
        self.clock = clock
        self._tenant_id = tenant_id
        self._durability = durability
        self._sampling = sampling
        self._edge = edge_of(detection) if remove_identifiers else None
        self._writer = SegmentWriter(
            segments_dir, clock=clock, durability=durability, max_age_s=max_age_s, patience_s=patience_s
        )
        self._delivery = Delivery(
            self._writer,
            dead_letters=dead_letters,
            clock=clock,
            max_bytes=max_waiting_bytes,
        )
        try:
            recover_segments(segments_dir)
        except OSError as error:  # nothing is lost: the next collector or the pool's intake does it
            LOGGER.warning("segments of killed processes in %s cannot be recovered now: %s", segments_dir, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def drops(self) -> dict[str, int]:
        """How many logs were lost, by reason: an error's name, ``overload``, ``too large``, ``not encodable: …``."""
        return self._delivery.drops

    @property
    def waiting(self) -> int:
        """How many logs wait in memory for another attempt to write them."""
        return self._delivery.waiting

    def log_routing_decision(self, decision: RoutingDecision) -> bool:
        """Log whom the arbiter chose, and why."""
        return self.log(decision)

    def log_execution(self, execution: Execution) -> bool:
        """Log how the agent did."""
        return self.log(execution)

    def log_evaluation(self, evaluation: Evaluation) -> bool:
        """Log what the evaluator found."""
        return self.log(evaluation)

    def log_feedback(self, feedback: Feedback) -> bool:
        """Log what people or systems said later."""
        return self.log(feedback)

    def log(self, record: Log) -> bool:
        """Log any of the four."""
        return self.log_made(lambda: record)

    async def log_async(self, record: Log) -> bool:
        """The same for coroutines: a sync of the disk is waited for in a thread, and the event loop goes on."""
        return await self.log_made_async(lambda: record)

    def log_made(self, make: Callable[[], Log]) -> bool:
        """Log what a function makes; one that cannot make it is counted like a log that cannot be encoded."""
        payload = self._encoded(make)
        return payload is not None and self._delivery.send(payload)

    async def log_made_async(self, make: Callable[[], Log]) -> bool:
        """The same for coroutines."""
        payload = self._encoded(make)
        if payload is None:
            return False
        if self._durability == "process":
            return self._delivery.send(payload)
        return await asyncio.to_thread(self._delivery.send, payload)

    def for_tenant(self, tenant_id: str) -> Self:
        """A collector of another tenant's logs that shares all else with this one, and is closed with it."""
        other = copy.copy(self)
        other._tenant_id = tenant_id
        return other

    def task(self, **options: Any) -> "TaskLog":
        """A whole task as a context manager or decorator; the options are those of ``TaskLog``."""
        from flywheel.collection.task_log import TaskLog

        return TaskLog(self, **options)

    def wrap_router(self, router: Wrapped) -> Wrapped:
        """The router, or a function, whose choices are taken down in the current task. See ``wrapping``."""
        from flywheel.collection.wrapping import wrapped_router

        return wrapped_router(router)

    def wrap_agent(self, agent: Wrapped, *, agent_id: str, task_type: str | None = None) -> Wrapped:
        """The agent, or a function, whose answers are logged as executions. See ``wrapping``."""
        from flywheel.collection.wrapping import wrapped_agent

        return wrapped_agent(self, agent, agent_id=agent_id, task_type=task_type)

    def wrap_evaluator(self, evaluator: Wrapped) -> Wrapped:
        """The evaluator, or a function, whose verdicts are taken down in the current task. See ``wrapping``."""
        from flywheel.collection.wrapping import wrapped_evaluator

        return wrapped_evaluator(evaluator)

    def close(self) -> None:
        """Deliver what waits and hand the current segment over. Logging may go on: it opens another."""
        self._delivery.close()
        self._writer.close()

    def _encoded(self, make: Callable[[], Log]) -> bytes | None:
        try:
            record = self._sampling.applied(msgspec.structs.replace(make(), tenant_id=self._tenant_id))
            encoded = encode(record)
            if self._edge is None or not self._edge.may_find(_looked_into(record)):
                return encoded
            return without_identifiers(encoded, self._edge)
        except Exception as error:
            self._delivery.drop(f"not encodable: {type(error).__name__}")
            LOGGER.debug("a log could not be made", exc_info=True)
            return None


def _looked_into(record: Log) -> Log:
    """The record without the ids and signatures of a verdict: altered, nobody could verify it."""
    if not isinstance(record, Evaluation) or not isinstance(record.caws, Caws):
        return record
    return msgspec.structs.replace(record, caws=without_signed(record.caws))


def without_identifiers(encoded: bytes, edge: "Edge") -> bytes:
    """A log's JSON without what the edge removes; the same bytes where that is nothing.

    In lists of its JSON values can be replaced; in the tuples of a record they cannot.
    """
    document: dict[str, Any] = msgspec.json.decode(encoded)
    kept = {key: document.pop(key) for key in KEYS if key in document}
    caws = document.get("caws")
    signed = {name: caws.pop(name) for name in signed_fields(caws)} if isinstance(caws, dict) else {}
    if not edge.remove(document):
        return encoded
    if signed:
        document["caws"] |= signed
    return encode({**kept, **document})


def edge_of(detection: "Detection | None") -> "Edge":
    """What is imported and compiled here takes seconds: at the start of the service, not at its first task."""
    from flywheel.pool.anonymization.detection import DEFAULT
    from flywheel.pool.anonymization.edge import Edge

    edge = Edge(kept=frozenset(KEYS), detection=DEFAULT if detection is None else detection)
    edge.warm_up()
    return edge
