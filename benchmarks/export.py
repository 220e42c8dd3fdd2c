"""An export of 10,000 points out of a warm tier of 30,000, beside polars, which reads the same Parquet files.

``python benchmarks/export.py [--points 10000] [--json]``. Points of 30 days with 3.6 kB of text each, two in a hundred
of them near-duplicates of another. Seconds:

- ours: choose (stratified, recent first, near-duplicates removed, split by task), copy into the lake, mark and enter
  into the ledger, write TRL's JSONL with a manifest; the first export of a process, and a second for another phase;
- polars: filter by outcome and quality, the most recent first, write JSONL. It removes, splits, copies, marks nothing.

Processor seconds are this process's, PostgreSQL's aside: on a machine that does other things they say more.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from _installation import empty_installation

from flywheel import records
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.export_files import write_export
from flywheel.pool.exports import make_export
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema, row_of
from flywheel.pool.schemas import POINT_COLUMNS, WARM

NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
DAYS, AGENTS, TYPES = 30, 12, ("research", "design", "planning", "code-editing")
WORDS, WORDS_A_POINT = 4_000, 560


def text_of(chance: random.Random, earlier: list[str]) -> str:
    """Words by chance, rare ones rarely; two times in a hundred an earlier text with one word changed."""
    if earlier and chance.random() < 0.02:
        return chance.choice(earlier).replace(" ", " also ", 1)
    return " ".join(f"word{int(WORDS ** chance.random())}" for _ in range(WORDS_A_POINT))


def point_of(number: int, text: str, *, at: datetime) -> records.DataPoint:
    """A point that went well, or one in five that did not."""
    well = number % 5 > 0
    asked, answered = text[: len(text) // 2], text[len(text) // 2 :]
    return records.DataPoint(
        id=f"{number:032x}",
        timestamp=at,
        tenant_id=f"{number % 7:064x}",
        task=records.Task(
            id=f"task-{number}", type=TYPES[number % len(TYPES)], complexity=list(records.Complexity)[number % 3]
        ),
        routing=records.Routing(
            selected_agent_id=f"agent-{number % AGENTS}",
            strategy=records.Strategy.MULTI_ARMED_BANDIT,
            confidence=0.9,
            candidate_agents=(),
            primary_reason="highest sample",
        ),
        execution=records.ExecutionPart(
            success=well,
            latency_ms=400.0,
            tokens_used=900,
            tool_call_count=0,
            messages=(
                records.Message(role="system", content="You are a careful assistant."),
                records.Message(role="user", content=asked),
                records.Message(role="assistant", content=answered),
            ),
        ),
        evaluation=records.EvaluationPart(
            quality_gates=(),
            rubric_scores=records.RubricScores(format=1, tool=1, task=1, minimal=1, cost=0.9, safety=1),
            overall_score=0.9 if well else 0.2,
            caws_compliant=True,
            budget_compliant=True,
            passed_all_mandatory=True,
        ),
        rl_labels=records.RlLabels(final_outcome="success" if well else "failure", total_reward=0.9 if well else 0.2),
        provenance=records.Provenance(),
        rl_ready=True,
    )


def fill(pool: BenchmarkPool, points: int) -> None:
    """A warm tier, and a ledger that knows its days as verified."""
    chance = random.Random(7)
    earlier: list[str] = []

    def rows(day: int) -> Iterator[dict[str, Any]]:
        for number in range(day * points // DAYS, (day + 1) * points // DAYS):
            text = text_of(chance, earlier)
            earlier.append(text)
            point = point_of(number, text, at=NOW - timedelta(days=day, milliseconds=number))
            yield row_of(point, day=point.day)

    for day in range(DAYS):
        date = (NOW - timedelta(days=day)).date()
        pool.replace(WARM, date, rows(day), schema=arrow_schema(POINT_COLUMNS))
        with pool.transaction() as connection:
            connection.execute(
                "INSERT INTO days (day, revision, changed_at, privacy_violations) VALUES (%s, 1, %s, 0)", (date, NOW)
            )


def ours(pool: BenchmarkPool, phase: Any, size: int, folder: Path) -> dict[str, float]:
    """Seconds to make an export, and to write it; of both the processor's."""
    started, processor = time.perf_counter(), time.process_time()
    criteria = criteria_for(pool.settings, phase, min_points=size, max_points=size)
    export = make_export(pool, criteria, export_id=f"benchmark-{phase}", now=NOW + timedelta(hours=1))
    made = time.perf_counter()
    write_export(pool, export.batch.id, folder, "trl", made=export)
    assert export.batch.size == size
    ended = time.perf_counter()
    return {
        "make": made - started,
        "write": ended - made,
        "all": ended - started,
        "processor": time.process_time() - processor,
    }


def with_polars(pool: BenchmarkPool, size: int, target: Path) -> dict[str, float]:
    """Seconds to filter, sort and write the same number of points with polars, and the processor's."""
    import polars as pl

    started, processor = time.perf_counter(), time.process_time()
    found = (
        pl.scan_parquet(f"{pool.lake.table_url(WARM)}/**/*.parquet", hive_partitioning=True)
        .filter(pl.col("success") & (pl.col("overall_score") >= 0.8))
        .sort("timestamp", descending=True)
        .head(size)
        .collect()
    )
    found.write_ndjson(target)
    assert len(found) == size
    return {"all": time.perf_counter() - started, "processor": time.process_time() - processor}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000, help="of the export; the pool has three times as many")
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    with empty_installation() as settings, BenchmarkPool.open(settings) as pool:
        fill(pool, 3 * arguments.points)
        first = ours(pool, "sft", arguments.points, settings.home / "first")
        second = ours(pool, "grpo", arguments.points, settings.home / "second")
        peer = with_polars(pool, arguments.points, settings.home / "peer.jsonl")
        size = sum(path.stat().st_size for path in (settings.home / "first").iterdir())
    figures = {
        "points": arguments.points,
        "bytes_a_point": size / arguments.points,
        "first_s": first,
        "second_s": second,
        "polars_s": peer,
        "times_as_long_as_polars": second["all"] / peer["all"],
    }
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    sys.stdout.write(f"{arguments.points:,} points of {figures['bytes_a_point'] / 1000:.1f} kB\n")
    for label, seconds in (("the first export", first), ("the second", second)):
        parts = f"make {seconds['make']:.2f} s, write {seconds['write']:.2f} s"
        sys.stdout.write(f"{label:<20}{seconds['all']:>6.2f} s, processor {seconds['processor']:.2f} s: {parts}\n")
    sys.stdout.write(
        f"{'polars, JSONL':<20}{peer['all']:>6.2f} s, processor {peer['processor']:.2f} s;"
        f" our second takes {figures['times_as_long_as_polars']:.1f} times as long\n"
    )


if __name__ == "__main__":
    main()
