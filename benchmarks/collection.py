"""What logging a task costs the agent's thread, and how fast logs become durable, beside named peers in the same run.

``python benchmarks/collection.py [--tasks 2000] [--json]``. A task is three logs of about 2 kB. Peers:

- ``logging`` to a file: the same JSON, one line a log, flushed as it always is;
- OpenTelemetry's BatchSpanProcessor with an exporter to a file: three spans whose attribute is the same JSON. It only
  queues, so what it has is lost when the process dies;
- MLflow's tracing client with a local SQLite store: the same three spans.

Durable logs are compared with commits of one row each by psycopg, with the embedded PostgreSQL on the same disk. All
take turns. Wall-clock time, and CPU time of the thread where it says so: on a machine that others use as well,
wall-clock tails are theirs.
"""

import argparse
import json
import logging
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from flywheel import records
from flywheel.collection import Collector, SegmentWriter
from flywheel.collection.collector import utc_now

AT = datetime(2025, 3, 1, 12, tzinfo=UTC)
WORDS = ("the", "agent", "reads", "a", "file", "and", "calls", "one", "of", "its", "tools", "before", "it", "writes")
TURNS = 3  # of each way, its threads ended before the next: they would be in the other's time
THREADS = 32
Task = tuple[records.RoutingDecision, records.Execution, records.Evaluation]
Work = Callable[[Task], object]


def text_of(number: int, characters: int) -> str:
    """Text of a task, different for each."""
    words = [WORDS[(number * 7 + place * (1 + number % 5)) % len(WORDS)] for place in range(characters // 4)]
    return " ".join(words)[:characters]


def task_of(number: int) -> Task:
    """Three logs of about 2 kB each."""
    name, agent = f"task-{number}", f"agent-{number % 12}"
    candidate = records.CandidateAgent(
        agent_id=agent,
        capability_score=0.9,
        performance_score=0.8,
        load_score=0.7,
        final_score=0.8,
        selection_reason="highest sample",
        propensity=0.5,
    )
    turn = records.Turn(
        turn_number=1, information_gain=1, format_correctness=1, task_progress=1, safety_score=1, turn_reward=1.0
    )
    return (
        records.RoutingDecision(
            timestamp=AT,
            tenant_id="acme",
            task_id=name,
            task_type="research",
            complexity=records.Complexity.STANDARD,
            selected_agent_id=agent,
            strategy=records.Strategy.MULTI_ARMED_BANDIT,
            confidence=0.9,
            candidate_agents=(candidate,) * 5,
            primary_reason="highest sample",
            description=text_of(number, 700),
        ),
        records.Execution(
            task_id=name,
            agent_id=agent,
            timestamp=AT + timedelta(seconds=1),
            success=True,
            latency_ms=400.0,
            tokens_used=90,
            tool_call_count=1,
            messages=(
                records.Message(role="user", content=text_of(number, 700)),
                records.Message(role="assistant", content=text_of(number + 1, 800)),
            ),
        ),
        records.Evaluation(
            task_id=name,
            agent_id=agent,
            timestamp=AT + timedelta(seconds=2),
            quality_gates=(),
            rubric_scores=records.RubricScores(format=1, tool=1, task=1, minimal=1, cost=0.9, safety=1),
            overall_score=0.9,
            caws_compliant=True,
            budget_compliant=True,
            passed_all_mandatory=True,
            turn_data=(turn,) * 11,
        ),
    )


@contextmanager
def by_collector(folder: Path, *, remove_identifiers: bool) -> Iterator[Work]:
    """The three logs by our collector."""
    with Collector(folder / "segments", "acme", remove_identifiers=remove_identifiers) as collector:

        def work(task: Task) -> None:
            collector.log_routing_decision(task[0])
            collector.log_execution(task[1])
            collector.log_evaluation(task[2])

        yield work


@contextmanager
def by_logging(folder: Path) -> Iterator[Work]:
    """The standard library's logger with a file."""
    logger = logging.Logger("bench", logging.INFO)
    handler = logging.FileHandler(folder / "logging.jsonl")
    logger.addHandler(handler)

    def work(task: Task) -> None:
        for record in task:
            logger.info("%s", records.encode(record).decode())

    yield work
    handler.close()


@contextmanager
def by_opentelemetry(folder: Path) -> Iterator[Work]:
    """Spans by the batch processor to a file."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    with (folder / "spans.json").open("w") as file:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=file)))
        tracer = provider.get_tracer("bench")

        def work(task: Task) -> None:
            for record in task:
                with tracer.start_as_current_span(type(record).__name__) as span:
                    span.set_attribute("log", records.encode(record).decode())

        yield work
        provider.shutdown()


@contextmanager
def by_mlflow(folder: Path) -> Iterator[Work]:
    """Spans of one trace by MLflow's client."""
    import mlflow  # noqa: TID251 - a peer here, not the tracker

    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # SQLite is locked at times; it tries again
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment(folder.name, artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment(folder.name)

    def work(task: Task) -> None:
        with mlflow.start_span("task"):
            for record in task:
                with mlflow.start_span(type(record).__name__) as span:
                    span.set_attribute("log", records.encode(record).decode())

    yield work
    mlflow.flush_trace_async_logging(terminate=True)


WAYS: dict[str, tuple[Callable[[Path], AbstractContextManager[Work]], float]] = {
    "collector": (partial(by_collector, remove_identifiers=False), 1.0),
    "collector, identifiers removed": (partial(by_collector, remove_identifiers=True), 1.0),
    "logging to a file": (by_logging, 1.0),
    "opentelemetry batch": (by_opentelemetry, 1.0),
    "mlflow tracing": (by_mlflow, 0.05),
}
"""Each with the share of the tasks that it gets: the slow one fewer."""


def costs(folder: Path, tasks: list[Task]) -> dict[str, dict[str, float]]:
    """µs a task of each way: median and p99 by the clock, and of the thread's CPU time."""
    wall: dict[str, list[float]] = {name: [] for name in WAYS}
    cpu: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(TURNS):
        for name, (way, share) in WAYS.items():
            with tempfile.TemporaryDirectory(dir=folder) as own, way(Path(own)) as work:
                work(tasks[0])  # opens files
                for task in tasks[turn :: max(TURNS, round(TURNS / share))]:
                    started, started_cpu = time.perf_counter_ns(), time.thread_time_ns()
                    work(task)
                    cpu[name].append((time.thread_time_ns() - started_cpu) / 1000)
                    wall[name].append((time.perf_counter_ns() - started) / 1000)
    return {
        name: {
            "median_us": statistics.median(wall[name]),
            "p99_us": quantile(wall[name], 0.99),
            "cpu_median_us": statistics.median(cpu[name]),
            "cpu_p99_us": quantile(cpu[name], 0.99),
        }
        for name in WAYS
    }


def quantile(values: list[float], share: float) -> float:
    """The value below which that share of them is."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def throughput(folder: Path, payload: bytes, *, seconds: float) -> float:
    """Records/s that ``THREADS`` threads get durable, one by one."""
    counts = [0] * THREADS
    until = time.monotonic() + seconds
    with SegmentWriter(folder, clock=utc_now, durability="machine") as writer:

        def work(thread: int) -> None:
            while time.monotonic() < until:
                writer.append(payload)
                counts[thread] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.monotonic() - started)


def commits(folder: Path, url: str, payload: bytes, *, count: int) -> dict[str, float]:
    """µs of one durable record and of one PostgreSQL commit, medians, in turns."""
    import psycopg

    ours, theirs = [], []
    with (
        psycopg.connect(url, autocommit=True) as connection,
        SegmentWriter(folder, clock=utc_now, durability="machine") as writer,
    ):
        connection.execute("CREATE TABLE bench (payload bytea)")
        for _ in range(count):
            started = time.perf_counter_ns()
            writer.append(payload)
            ours.append((time.perf_counter_ns() - started) / 1000)
            started = time.perf_counter_ns()
            connection.execute("INSERT INTO bench VALUES (%s)", (payload,))
            theirs.append((time.perf_counter_ns() - started) / 1000)
    return {
        "segment_us": statistics.median(ours),
        "postgresql_us": statistics.median(theirs),
        "ratio": statistics.median(ours) / statistics.median(theirs),
    }


def measure(folder: Path, *, tasks: int, url: str, memory: Path | None) -> dict[str, Any]:
    """All figures. ``memory`` is a folder of a file system in memory, where syncing is free."""
    folder.mkdir(parents=True, exist_ok=True)
    logs = [task_of(number) for number in range(tasks)]
    tasks_us = costs(folder, logs)
    payload = records.encode(logs[0][1])
    figures: dict[str, Any] = {
        "tasks": tasks,
        "bytes_a_log": [len(records.encode(msgspec.structs.replace(record, tenant_id="acme"))) for record in logs[0]],
        "task": tasks_us,
        "threads": THREADS,
        "records_per_s_machine": throughput(folder / "many", payload, seconds=4),
        "commit": commits(folder / "single", url, payload, count=300),
    }
    if memory is not None:
        with tempfile.TemporaryDirectory(dir=memory) as name:
            figures["records_per_s_machine_in_memory"] = throughput(Path(name), payload, seconds=4)
    return figures


def show(figures: dict[str, Any]) -> None:
    """For people."""
    print(f"a task of three logs of {figures['bytes_a_log']} bytes, in the agent's thread:")
    for name, of in figures["task"].items():
        clock, cpu = (f"{of[f'{kind}median_us']:>8.0f} µs, p99 {of[f'{kind}p99_us']:>8.0f}" for kind in ("", "cpu_"))
        print(f"  {name:<32}{clock}; CPU {cpu}")
    print(f"durable on the machine, {figures['threads']} threads: {figures['records_per_s_machine']:,.0f} records/s")
    if "records_per_s_machine_in_memory" in figures:
        print(f"  the same where syncing is free: {figures['records_per_s_machine_in_memory']:,.0f} records/s")
    commit = figures["commit"]
    print(
        f"one durable record: {commit['segment_us']:,.0f} µs, a PostgreSQL commit {commit['postgresql_us']:,.0f} µs:"
        f" {commit['ratio']:.2f} of it"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    from _installation import empty_installation

    memory = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one
    with empty_installation() as settings:
        figures = measure(
            settings.home,
            tasks=arguments.tasks,
            url=settings.database_url or "",
            memory=memory if memory.is_dir() else None,
        )
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    else:
        show(figures)


if __name__ == "__main__":
    main()
