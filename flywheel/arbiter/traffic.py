"""Streams of benchmark tasks through the arbiter: before training, and after a champion was approved.

A killed stream is resumed by running it again. Nothing is lost and nothing counted twice, because a task has three
states and each step between them is one write:

1. its three logs are appended to a segment, the evaluation last;
2. its outcome and what the bandit learns of it are committed together, and only for a task without an outcome.

Killed before 1 is complete, the task is run again under the same id; of a log that was already written the pool keeps
the newest and counts the other as a duplicate. Killed between 1 and 2, the outcome is rebuilt from the segment, so that
the task is not run again. Killed after 2, it is skipped.
"""

import hashlib
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from sqlalchemy import Engine, func, select, text

from flywheel.arbiter.agents.build import ResolveModel, refuse_registry_models
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Progress
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.build import arbiter_of
from flywheel.arbiter.capability_events import look
from flywheel.arbiter.loads import SharedLoads
from flywheel.arbiter.outcomes import Outcome, outcome_of
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.rounds import task_id_of
from flywheel.arbiter.tables import task_outcomes
from flywheel.collection.collector import Collector, utc_now
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.errors import ConfigurationError, NotASegmentError, SegmentError, ServiceError, TaskSourceError
from flywheel.records import Evaluation, Execution, Log, RoutingDecision, decode_log
from flywheel.settings import Settings
from flywheel.tasks.catalog import environment_of, source_names
from flywheel.tasks.source import SourceTask, Split

BEFORE = "before"
AFTER = "after"
_LOCK_NAMESPACE = 0x74726166  # "traf"


TrafficProgress = Callable[[int, int, str], None]
"""Called with tasks done (those of earlier runs included), tasks in all, and what is going on, in words."""


def ignore_traffic_progress(done: int, total: int, message: str) -> None:
    """The progress callback of callers who do not watch."""


class AgentTraffic(Struct, frozen=True, kw_only=True):
    """One agent's part of a stream. Shares and rates are 0–1."""

    agent_id: str
    tasks: int
    successes: int
    share: float
    success_rate: float
    mean_quality: float


class TrafficReport(Struct, frozen=True, kw_only=True):
    """What was routed under a label, in all runs, with the agents by tasks, most first.

    ``success_rate`` and ``mean_quality`` are None before the first task. ``seconds`` is the time of this run; None
    where the report was only read.
    """

    label: str
    tasks: int
    successes: int
    success_rate: float | None
    mean_quality: float | None
    agents: tuple[AgentTraffic, ...]
    seconds: float | None = None


def run_tasks(
    settings: Settings,
    engine: Engine,
    *,
    label: str,
    count: int | None = None,
    on_progress: TrafficProgress = ignore_traffic_progress,
    resolve_model: ResolveModel = refuse_registry_models,
    clock: Callable[[], datetime] = utc_now,
) -> TrafficReport:
    """Route the label's tasks that have no outcome yet, in rounds, and report on all of them.

    Args:
        settings: which tasks, how many a round, which agents.
        engine: the database.
        label: ``before`` or ``after``.
        count: how many tasks of the stream, from its start; all of them where None.
        on_progress: see ``TrafficProgress``.
        resolve_model: finds models of the model registry.
        clock: the time.

    Raises:
        ConfigurationError: the label is unknown, or no agent is active.
        TaskSourceError: there are not enough tasks.
        SegmentError: logs could not be written; those tasks are run again next time.
        ServiceError: another process is running this stream.
    """
    started = time.monotonic()
    AgentRegistry(engine).seed_from_settings(settings)
    tasks = stream(settings, engine, label=label)[:count]
    with (
        _only_runner(engine, label),
        Notary(settings, engine, clock=clock) as notary,
        _collector(settings, clock) as collector,
        SharedLoads(engine) as shared,
    ):
        done = _done(engine, label)
        notary.check()
        arbiter = arbiter_of(
            settings,
            engine,
            collector,
            label=label,
            slots=Slots(shared),
            clock=clock,
            rng=np.random.default_rng([zlib.crc32(label.encode()), len(done)]),
            notary=notary,
            resolve_model=resolve_model,
        )
        done |= _settle_logged(
            arbiter, settings, engine, label=label, wanted={task_id_of(label, t) for t in tasks} - done
        )
        remaining = [task for task in tasks if task_id_of(label, task) not in done]
        _run_rounds(arbiter, collector, settings, remaining, total=len(tasks), on_progress=on_progress)
    look(engine, settings.capabilities)
    report = traffic_report(engine, label=label)
    return msgspec.structs.replace(report, seconds=time.monotonic() - started)


def _run_rounds(
    arbiter: Arbiter,
    collector: Collector,
    settings: Settings,
    remaining: Sequence[SourceTask],
    *,
    total: int,
    on_progress: TrafficProgress,
) -> None:
    """Run what remains of so many tasks. A round counts when all its logs are written."""
    done = total - len(remaining)
    on_progress(done, total, "resumed" if done else "started")
    for number, tasks in enumerate(_rounds(remaining, settings.tasks.round_size), start=1):
        arbiter.run(tasks, on_progress=_round_progress(on_progress, number, before=done, total=total))
        _refuse_drops(collector, settings.segments_dir)
        done += len(tasks)


def _collector(settings: Settings, clock: Callable[[], datetime]) -> Collector:
    from flywheel.pool.anonymization.detection import detection_of

    detection = detection_of(settings.anonymization.types)
    return Collector(settings.segments_dir, settings.tenant_id, clock=clock, detection=detection)


def _settle_logged(arbiter: Arbiter, settings: Settings, engine: Engine, *, label: str, wanted: set[str]) -> set[str]:
    """Settle those of the wanted tasks whose logs were complete when a run was killed; their ids."""
    known = {profile.id for profile in AgentRegistry(engine).list()}
    logged = logged_outcomes(settings.segments_dir, wanted, label=label, tenant_id=settings.tenant_id)
    return {outcome.task_id for outcome in arbiter.settle([o for o in logged if o.agent_id in known])}


def stream(settings: Settings, engine: Engine, *, label: str) -> list[SourceTask]:
    """The tasks of a label: training tasks, in an order that a hash of their id gives; of the benchmark those of the
    training categories, of other configured sources all.

    ``before`` takes the first ``routed_before``, ``after`` the next ``routed_after``; a task that has an outcome under
    the other label is in neither, also where the configuration was changed in between.

    Raises:
        ConfigurationError: the label is unknown.
        TaskSourceError: there are not enough tasks.
    """
    from flywheel.tasks.catalog import load_source

    if label not in {BEFORE, AFTER}:
        raise ConfigurationError(f"traffic {label!r} is unknown; use {BEFORE} or {AFTER}")
    candidates: list[SourceTask] = [
        task
        for task in load_source(settings).tasks()
        if task.split is Split.TRAIN and task.category in settings.tasks.training_categories
    ]
    for name in source_names(settings.tasks)[1:]:
        environment = environment_of(name, settings.tasks)
        candidates += [task for task in environment.tasks() if task.split is Split.TRAIN]
    candidates.sort(key=lambda task: hashlib.blake2b(task.id.encode(), digest_size=16).digest())
    start = 0 if label == BEFORE else settings.tasks.routed_before
    length = settings.tasks.routed_before if label == BEFORE else settings.tasks.routed_after
    elsewhere = _sources_of_other_labels(engine, label)
    chosen = list(islice((task for task in candidates[start:] if task.id not in elsewhere), length))
    if len(chosen) < length:
        names = ", ".join((*settings.tasks.training_categories, *settings.tasks.sources))
        raise TaskSourceError(
            f"{length} tasks are wanted for {label!r}, and {len(chosen)} training tasks of {names} are left; "
            f"lower tasks.routed_{label}"
        )
    return chosen


def traffic_report(engine: Engine, *, label: str) -> TrafficReport:
    """What was routed under a label, in all runs."""
    outcome = task_outcomes.c
    successes = func.count().filter(outcome.success)
    query = (
        select(outcome.agent_id, func.count().label("tasks"), successes.label("successes"), func.sum(outcome.quality))
        .where(outcome.label == label)
        .group_by(outcome.agent_id)
        .order_by(func.count().desc(), outcome.agent_id)
    )
    with engine.connect() as connection:
        rows = [(row[0], int(row[1]), int(row[2]), float(row[3])) for row in connection.execute(query)]
    total = sum(tasks for _, tasks, _, _ in rows)
    succeeded = sum(right for _, _, right, _ in rows)
    return TrafficReport(
        label=label,
        tasks=total,
        successes=succeeded,
        success_rate=succeeded / total if total else None,
        mean_quality=sum(quality for _, _, _, quality in rows) / total if total else None,
        agents=tuple(
            AgentTraffic(
                agent_id=agent_id,
                tasks=tasks,
                successes=right,
                share=tasks / total,
                success_rate=right / tasks,
                mean_quality=quality / tasks,
            )
            for agent_id, tasks, right, quality in rows
        ),
    )


def logged_outcomes(segments_dir: Path, task_ids: set[str], *, label: str, tenant_id: str) -> list[Outcome]:
    """The outcomes of those tasks whose three logs are in closed segments; of each log the newest counts."""
    newest: defaultdict[str, dict[type, Log]] = defaultdict(dict)
    for path in closed_segments(segments_dir) if task_ids else []:
        for log in _own_logs(path, task_ids, tenant_id):
            kept = newest[log.task_id].get(type(log))
            if kept is None or kept.timestamp <= log.timestamp:
                newest[log.task_id][type(log)] = log
    outcomes = []
    for logs in newest.values():
        decision, executed, evaluation = (logs.get(kind) for kind in (RoutingDecision, Execution, Evaluation))
        if (
            isinstance(decision, RoutingDecision)
            and isinstance(executed, Execution)
            and isinstance(evaluation, Evaluation)
            and decision.selected_agent_id == executed.agent_id == evaluation.agent_id
        ):
            outcomes.append(outcome_of(decision, executed, evaluation, label=label))
    return outcomes


def _own_logs(path: Path, task_ids: set[str], tenant_id: str) -> Iterator[Log]:
    try:
        items = list(read_segment(path))
    except NotASegmentError:
        return  # the pool counts it as damaged
    for item in items:
        if not isinstance(item, Frame):
            continue
        try:
            log = decode_log(item.payload)
        except msgspec.DecodeError:
            continue  # a malformed line of somebody else's file: the pool quarantines it
        if log.task_id in task_ids and log.tenant_id == tenant_id:
            yield log


def _round_progress(on_progress: TrafficProgress, number: int, *, before: int, total: int) -> Progress:
    def report(done: int, _: int) -> None:
        on_progress(before + done, total, f"round {number}")

    return report


def _rounds(tasks: Sequence[SourceTask], size: int) -> Iterator[Sequence[SourceTask]]:
    for start in range(0, len(tasks), size):
        yield tasks[start : start + size]


def _refuse_drops(collector: Collector, segments_dir: Path) -> None:
    if collector.drops or collector.waiting:
        lost = {**collector.drops, **({"waiting": collector.waiting} if collector.waiting else {})}
        reasons = ", ".join(f"{count} × {reason}" for reason, count in sorted(lost.items()))
        raise SegmentError(f"logs could not be written to {segments_dir}: {reasons}. Make room and run the tasks again")


def _done(engine: Engine, label: str) -> set[str]:
    with engine.connect() as connection:
        return set(connection.scalars(select(task_outcomes.c.task_id).where(task_outcomes.c.label == label)))


def _sources_of_other_labels(engine: Engine, label: str) -> set[str]:
    with engine.connect() as connection:
        return set(connection.scalars(select(task_outcomes.c.source_id).where(task_outcomes.c.label != label)))


@contextmanager
def _only_runner(engine: Engine, label: str) -> Iterator[None]:
    """Hold the stream for this process. PostgreSQL lets go of it when the process dies."""
    key = {"namespace": _LOCK_NAMESPACE, "key": zlib.crc32(label.encode()) & 0x7FFFFFFF}
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:namespace, :key)"), key):
            raise ServiceError(f"another process is running the tasks of {label!r}; wait for it or stop it")
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:namespace, :key)"), key)
