"""A day's logs on their way from segments to lake and hot tier, beside two others who do with the same bytes.

``python benchmarks/pool.py [--points 20000] [--json]``. Points/s, a point being three logs of together about 5.8 kB:

- ours: every stage of the pool, as Dagster's assets call them, with the embedded PostgreSQL on this machine;
- the floor: msgspec decodes the lines and zstd Parquet is written, nothing is judged, joined or anonymized;
- glued: pydantic decodes and bounds the lines, a dictionary joins them, SQLAlchemy inserts a row for each point. It
  anonymizes nothing.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from flywheel import records
from flywheel.collection.collector import Collector
from flywheel.collection.segments import closed_segments, segment_bytes
from flywheel.database import connect
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.indexing import SegmentFrames
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.validation import validate_day
from flywheel.quickstart.memory import PeakMemory
from flywheel.settings import Settings

NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
DAY = NOW.date()
AGENTS, TYPES = 12, ("research", "design", "planning", "tool-calling")
DICE = random.Random(7)
WORDS = ["".join(DICE.choices("etaoinshrdlucmfwypvbgk", k=DICE.randint(2, 10))) for _ in range(3_000)]
PERSONAL = (
    "Their address is mail{0}@example.org, they say.",
    "It lies in /home/user{0}/projects/shop/src/cart_{1}.py, line {1}.",
)


def text_of(number: int, turn: int) -> str:
    """130 words of a vocabulary of 3,000, which zstd makes a third of, and a sentence with an address or a path."""
    words = DICE.choices(WORDS, k=130)
    return " ".join([*words, PERSONAL[(number + turn) % 2].format(number, turn)])


def logs_of(number: int) -> tuple[records.RoutingDecision, records.Execution, records.Evaluation]:
    """The three logs of one task, five texts of about 900 characters, an e-mail address or a path in each."""
    task, agent, at = f"task-{number}", f"agent-{number % AGENTS}", NOW - timedelta(milliseconds=number * 3)
    roles: tuple[Literal["system", "user", "assistant", "tool"], ...] = (
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    )
    turns = tuple(records.Message(role=role, content=text_of(number, turn)) for turn, role in enumerate(roles))
    routing = records.RoutingDecision(
        timestamp=at,
        tenant_id="acme",
        task_id=task,
        task_type=TYPES[number % len(TYPES)],
        complexity=records.Complexity.STANDARD,
        selected_agent_id=agent,
        strategy=records.Strategy.MULTI_ARMED_BANDIT,
        confidence=0.9,
        candidate_agents=(),
        primary_reason="highest sample",
    )
    execution = records.Execution(
        task_id=task,
        agent_id=agent,
        timestamp=at + timedelta(seconds=1),
        success=number % 5 > 0,
        latency_ms=400.0 + number % 97,
        tokens_used=90 + number % 31,
        tool_call_count=1,
        tools_used=(records.ToolUse(tool_name="search", call_count=1, success_rate=1.0),),
        messages=turns,
    )
    evaluation = records.Evaluation(
        task_id=task,
        agent_id=agent,
        timestamp=at + timedelta(seconds=2),
        quality_gates=(),
        rubric_scores=records.RubricScores(format=1, tool=1, task=1, minimal=1, cost=0.9, safety=1),
        overall_score=0.9 if number % 5 else 0.2,
        caws_compliant=True,
        budget_compliant=True,
        passed_all_mandatory=True,
    )
    return routing, execution, evaluation


def write_segments(settings: Settings, points: int) -> int:
    """Let a collector write the day; the bytes of its logs."""
    size = 0
    with Collector(settings.segments_dir, "acme", clock=lambda: NOW) as collector:
        for number in range(points):
            routing, execution, evaluation = logs_of(number)
            collector.log_routing_decision(routing)
            collector.log_execution(execution)
            collector.log_evaluation(evaluation)
    for path in closed_segments(settings.segments_dir):
        size += len(segment_bytes(path))
    return size


def seconds_of(work: Callable[[], object]) -> float:
    """How long it took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def ours(pool: BenchmarkPool) -> dict[str, float]:
    """Seconds of each stage."""
    now = NOW + timedelta(hours=1)
    return {
        "index": seconds_of(lambda: index_segments(pool, now=now)),
        "validate": seconds_of(lambda: validate_day(pool, DAY, now=now)),
        "anonymize": seconds_of(lambda: anonymize_day(pool, DAY)),
        "privacy check": seconds_of(lambda: find_violations(pool, DAY)),
        "warm": seconds_of(lambda: place_warm(pool, DAY, now=now)),
        "hot": seconds_of(lambda: place_hot(pool, DAY, now=now)),
        "cold": seconds_of(lambda: aggregate_cold(pool, DAY, now=now)),
        "statistics": seconds_of(lambda: refresh_statistics(pool, DAY)),
    }


def lines_of(settings: Settings) -> Iterator[bytes]:
    """The lines of all segments."""
    for path in sorted(settings.segments_dir.glob("*.segment")):
        yield from (frame.payload for frame in SegmentFrames(path))


def floor(settings: Settings, target: Path) -> None:
    """Decode every line; write it as one column of a zstd Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("payload", pa.string())])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        held: list[bytes] = []
        for line in lines_of(settings):
            records.decode_log(line)
            held.append(line)
            if len(held) == 3_000:
                writer.write_batch(pa.record_batch([pa.array(held, pa.string())], schema=schema))
                held.clear()
        writer.write_batch(pa.record_batch([pa.array(held, pa.string())], schema=schema))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    from _glued import glued
    from _installation import empty_installation

    with empty_installation() as settings:
        size = write_segments(settings, arguments.points)
        memory = PeakMemory(lambda: [os.getpid()], interval_s=0.2)
        with BenchmarkPool.open(settings) as pool, memory:
            stages = ours(pool)
        floor_s = seconds_of(lambda: floor(settings, settings.home / "floor.parquet"))
        engine = connect(settings.database_url)
        glued_s = seconds_of(lambda: glued(lines_of(settings), engine))
        engine.dispose()
    total = sum(stages.values())
    without = total - stages["hot"]
    figures = {
        "points": arguments.points,
        "bytes_a_point": size / arguments.points,
        "stages_points_a_second": {name: arguments.points / seconds for name, seconds in stages.items()},
        "points_a_second": arguments.points / total,
        "floor_points_a_second": arguments.points / floor_s,
        "share_of_floor_without_hot": floor_s / without,
        "glued_points_a_second": arguments.points / glued_s,
        "ratio_to_glued": glued_s / total,
        "peak_memory_gib": memory.gib,
    }
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    for name, seconds in stages.items():
        sys.stdout.write(f"{name:<28}{arguments.points / seconds:>10,.0f} points/s\n")
    sys.stdout.write(
        f"{'all of it':<28}{figures['points_a_second']:>10,.0f} points/s, peak {memory.gib:.2f} GiB in all\n"
        f"{'floor: decode, zstd Parquet':<28}{figures['floor_points_a_second']:>10,.0f} points/s;"
        f" ours without the hot tier is {figures['share_of_floor_without_hot']:.0%} of it\n"
        f"{'glued: pydantic, inserts':<28}{figures['glued_points_a_second']:>10,.0f} points/s;"
        f" ours is {figures['ratio_to_glued']:.2f} times as fast\n"
    )


if __name__ == "__main__":
    main()
