"""Days go by: logs arrive in time, late and broken, days grow old, some are run again; the counts balance every day.

``make simulate [DAYS=90]``, or ``python -m scripts.simulate [--days 90] [--tasks 40]``. What runs are the sensors and
jobs of ``definitions.py``, on a PostgreSQL and a lake of their own in a temporary folder, under a clock that jumps from
one evening to the next. Exits with 1 and a sentence at the first day whose account is wrong.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from flywheel.collection.segments import write_closed_segment
from flywheel.database import upgrade, url_with
from flywheel.pool.overview import DayOverview, list_days, pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import COLD
from flywheel.pool.validation import last_report
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings

FIRST_DAY = datetime(2026, 1, 1, 22, tzinfo=UTC)
TYPES = ("research", "design", "planning", "tool-calling")
LATENESS = (0, 0, 0, 0, 0, 0, 0, 1, 1, 3, 20, 45)  # days until a task's evaluation arrives, each as likely
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


class WrongAccountError(Exception):
    """Raised when something was lost, counted twice or is where its age does not belong."""


class World:
    """What arbiters write: every line is kept until the day on which it arrives."""

    def __init__(self, segments: Path, *, tasks: int, seed: int) -> None:
        self.segments = segments
        self.tasks = tasks
        self.dice = random.Random(seed)
        self.arriving: dict[date, list[bytes]] = {}
        self.written = 0

    def live(self, now: datetime) -> None:
        """A day of tasks; some of their logs arrive later, one in fifty lines is broken, one in fifty comes twice."""
        for number in range(self.tasks):
            at = now - timedelta(minutes=self.dice.randint(1, 20 * 60))
            routing, execution, evaluation = logs_of(f"{now:%Y%m%d}-{number}", at, self.dice)
            late = timedelta(days=self.dice.choice(LATENESS))
            for line, day in ((routing, now), (execution, now), (evaluation, now + late)):
                copies = 2 if self.dice.random() < 0.02 else 1
                broken = self.dice.random() < 0.02
                self.arriving.setdefault(day.date(), []).extend([line[:-9] if broken else line] * copies)

    def arrive(self, now: datetime) -> None:
        """Write what arrives today as one segment."""
        lines = self.arriving.pop(now.date(), [])
        self.dice.shuffle(lines)
        self.segments.mkdir(parents=True, exist_ok=True)
        path = self.segments / f"{now:%Y%m%d}.segment"
        write_closed_segment(path, lines)
        os.utime(path, (now.timestamp(), now.timestamp()))
        self.written += len(lines)


def logs_of(task: str, at: datetime, dice: random.Random) -> tuple[bytes, bytes, bytes]:
    """The three logs of a task, as an arbiter in any language writes them."""
    score = round(dice.random(), 3)
    agent = f"agent-{dice.randrange(5)}"
    calls = 1 if dice.random() < 0.95 else 2  # contradicts toolsUsed: quarantined
    keys = {"taskId": task, "agentId": agent}
    routing = {
        "log": "routing",
        "timestamp": at.isoformat(),
        "tenantId": f"tenant-{dice.randrange(3)}",
        "taskId": task,
        "taskType": dice.choice(TYPES),
        "complexity": "standard",
        "selectedAgentId": agent,
        "strategy": "multi-armed-bandit",
        "confidence": 0.8,
        "candidateAgents": [],
        "primaryReason": "highest sample",
        "description": f"write to user{dice.randrange(99)}@example.org",
    }
    execution = keys | {
        "log": "execution",
        "timestamp": (at + timedelta(seconds=1)).isoformat(),
        "success": score > 0.4,
        "latencyMs": 100 + 900 * dice.random(),
        "tokensUsed": dice.randrange(50, 500),
        "toolCallCount": calls,
        "toolsUsed": [{"toolName": "search", "callCount": 1, "successRate": 1.0}],
        "messages": [{"role": "user", "content": f"do {task}"}, {"role": "assistant", "content": "done"}],
    }
    evaluation = keys | {
        "log": "evaluation",
        "timestamp": (at + timedelta(seconds=2)).isoformat(),
        "qualityGates": [],
        "rubricScores": dict.fromkeys(("format", "tool", "task", "minimal", "cost", "safety"), score),
        "overallScore": score,
        "cawsCompliant": True,
        "budgetCompliant": True,
        "passedAllMandatory": True,
    }
    return tuple(json.dumps(log).encode() for log in (routing, execution, evaluation))  # type: ignore[return-value]


@contextmanager
def installation(*, hot_days: int, warm_days: int) -> Iterator[None]:
    """PostgreSQL and a home of their own, found by the environment as Dagster's processes find theirs."""
    with tempfile.TemporaryDirectory(prefix="flywheel-simulation-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user where this one is root
        server = EmbeddedPostgres(Path(folder) / "postgres")
        try:
            url = url_with(server.start(), driver="")
            upgrade(url)
            os.environ |= {
                "FLYWHEEL_PROFILE": "production",
                "FLYWHEEL_HOME": f"{folder}/home",
                "FLYWHEEL_DATABASE_URL": url,
                "FLYWHEEL_HOT_DAYS": str(hot_days),
                "FLYWHEEL_WARM_DAYS": str(warm_days),
                "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
            }
            yield
        finally:
            server.stop()


def run_what_is_due(instance: dg.DagsterInstance) -> int:
    """Let the sensors look and run what they ask for, until they ask for nothing. Returns how many runs there were."""
    from definitions import defs
    from resources.benchmark_pool import BenchmarkPoolResource
    from sensors.new_segments import new_segments
    from sensors.points_expired import points_expired

    resource = BenchmarkPoolResource()
    runs = 0
    while isinstance(requests := new_segments(dg.build_sensor_context(instance), benchmark_pool=resource), list):
        for request in requests:
            run(defs.resolve_job_def("pool_day"), instance, partition_key=request.partition_key)
            runs += 1
    if isinstance(points_expired(benchmark_pool=resource), dg.RunRequest):
        run(defs.resolve_job_def("pool_retention"), instance)
        runs += 1
    return runs


def run(job: dg.JobDefinition, instance: dg.DagsterInstance, **options: Any) -> None:
    """One run of a job, here."""
    result = job.execute_in_process(run_config=QUIET, instance=instance, raise_on_error=False, **options)
    if not result.success:
        raise WrongAccountError(
            f"{job.name} {options.get('partition_key', '')} failed: {result.all_events[-1].message}"
        )


def check_account(pool: BenchmarkPool, *, written: int, now: datetime) -> None:
    """Hold every count against what was written and how old it is."""
    counts = pool_counts(pool)
    accounted = sum(counts[name] for name in ("lines_in_points", "quarantined", "duplicates", "waiting"))
    if not written == counts["lines"] == accounted:
        raise WrongAccountError(f"{now:%Y-%m-%d}: {written:,} lines were written, the pool knows {counts}")
    for found in list_days(pool):
        if (problem := problem_of(pool, found, age=(now.date() - found.day).days)) is not None:
            raise WrongAccountError(f"{now:%Y-%m-%d}: {found.day} has {found.points:,} points, but {problem}")


def problem_of(pool: BenchmarkPool, found: DayOverview, *, age: int) -> str | None:
    """What is wrong with a day."""
    if found.hot != found.points * (age <= pool.settings.hot_days):
        return f"{found.hot:,} of them are in the hot tier at an age of {age} days"
    if found.warm != found.points * (age <= pool.settings.warm_days):
        return f"{found.warm:,} of them are in the warm tier at an age of {age} days"
    tasks = sum(row["tasks"] for row in read_rows(pool, COLD, found.day, columns=("tasks",)))
    return None if tasks == found.points else f"the aggregates count {tasks:,} tasks"


def run_again(instance: dg.DagsterInstance, pool: BenchmarkPool, day: date) -> None:
    """Backfill a day, twice. Its account stays; the second time nothing at all may change.

    The first time its points may: what they say of agents' earlier records knows logs of earlier days that came late.
    """
    from definitions import defs

    reports = [last_report(pool, day)]
    for _ in range(2):
        run(defs.resolve_job_def("pool_day"), instance, partition_key=str(day))
        reports.append(last_report(pool, day))
    before, first, second = reports
    if before.outcome != first.outcome or first != second:
        raise WrongAccountError(f"{day} was run again and is not the same: {before}, then {first}, then {second}")


def simulate(*, days: int, tasks: int, seed: int, hot_days: int, warm_days: int, again: int) -> None:
    """Let the days go by."""
    started = time.monotonic()
    runs = 0
    with installation(hot_days=hot_days, warm_days=warm_days), dg.DagsterInstance.ephemeral() as instance:
        world = World(Settings.load().segments_dir, tasks=tasks, seed=seed)
        for number in range(days):
            now = FIRST_DAY + timedelta(days=number)
            os.environ["FLYWHEEL_SIMULATED_NOW"] = now.isoformat()
            with BenchmarkPool.open(Settings.load()) as pool:
                world.live(now)
                world.arrive(now)
                runs += run_what_is_due(instance)
                if (number + 1) % again == 0:
                    run_again(instance, pool, (now - timedelta(days=world.dice.randrange(1, again))).date())
                    runs += 2
                check_account(pool, written=world.written, now=now)
                counts = pool_counts(pool)
            if (number + 1) % again == 0 or number == days - 1:
                sys.stdout.write(f"{now:%Y-%m-%d}  {runs:>4} runs  {json.dumps(counts)}\n")
    sys.stdout.write(f"{days} days balanced every day, in {time.monotonic() - started:.0f} s\n")


def main() -> None:
    """Read the arguments and go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--tasks", type=int, default=40, help="a day")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hot-days", type=int, default=7)
    parser.add_argument("--warm-days", type=int, default=30, help="production's 90 would not be reached")
    parser.add_argument("--again", type=int, default=10, help="one of the last so many days is run again as often")
    try:
        simulate(**vars(parser.parse_args()))
    except WrongAccountError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
