"""The columns of the pool's tables: what Dagster shows, what pandera demands of every row."""

from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from flywheel.pool.gates import WAIVABLE_GATES, WARNING_GATES
from flywheel.records import Complexity

if TYPE_CHECKING:
    import pandas as pd

    from flywheel.pool.pool import BenchmarkPool

# Tables of the lake.
VALIDATED = "validated_data_points"
ANONYMIZED = "anonymized_data_points"
WARM = "data_points"
COLD = "aggregates"
BATCHES = "training_batches"
LAKE_TABLES = (VALIDATED, ANONYMIZED, WARM, COLD, BATCHES)

# name: (type as the lake has it, what it is)
POINT_COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("string", "digest of tenant, task, agent and content"),
    "day": ("date", "the UTC day of the task: the partition"),
    "timestamp": ("timestamp", "of the routing decision, UTC, microseconds"),
    "tenant_id": ("string", "64 hex digits once anonymized"),
    "task_id": ("string", "as the arbiter named it"),
    "source": ("string", "the benchmark task this is an instance of, or null"),
    "task_type": ("string", "one of the configured types"),
    "complexity": ("string", "trivial, standard or complex"),
    "agent_id": ("string", "who did it"),
    "success": ("bool", "as the agent's execution ended"),
    "overall_score": ("double", "the rubric's verdict, 0–1"),
    "total_reward": ("double", "what training is told it is worth"),
    "latency_ms": ("double", "milliseconds from start to answer; null where it was imported from where nobody took it"),
    "tokens_used": ("int64", "tokens in and out; null as latency_ms"),
    "tool_calls": ("int64", "calls of tools; null in partitions of earlier versions"),
    "rl_ready": ("bool", "complete enough for reinforcement learning"),
    "warnings": ("list<string>", "gates it did not hold that only warn"),
    "waived": ("list<string>", "gates it did not hold that a reviewer waived"),
    "payload": ("string", "the whole point as wire JSON"),
}
LINE_COLUMNS: dict[str, tuple[str, str]] = {
    "payload": ("bytes", "one log in wire JSON, as it arrived"),
    "segment": ("string", "the file that holds it"),
    "log": ("string", "routing, execution, evaluation or feedback, as the line says"),
    "task_id": ("string", "null where it cannot be read"),
    "task_key": ("bytes", "digest of the task id; null where it cannot be read"),
    "owner_key": ("bytes", "digest of the tenant its task is joined under; null where several claim it"),
}
AGGREGATE_COLUMNS: dict[str, tuple[str, str]] = {
    "day": ("date", "the partition"),
    "tenant_id": ("string", "64 hex digits"),
    "agent_id": ("string", "who did it"),
    "task_type": ("string", "one of the configured types"),
    "tasks": ("int64", "points"),
    "successes": ("int64", "points that succeeded"),
    "mean_quality": ("double", "mean overall score, 0–1"),
    "mean_latency_ms": ("double", "milliseconds, of points that have one; null where none has"),
    "tokens": ("int64", "tokens in and out, summed"),
}
BATCH_COLUMNS: dict[str, tuple[str, str]] = {
    "batch_id": ("string", "the partition"),
    "phase": ("string", "sft, turn-level-rl, grpo or curriculum"),
    "split": ("string", "train, validation or held-out; null in batches of earlier versions, which are train"),
    "position": ("int64", "place within the phase, from 0"),
    "id": ("string", "of the point"),
    "day": ("date", "the point's partition in the pool"),
    "payload": ("string", "the whole point as wire JSON, as it was when the batch was made"),
}
STATISTICS_COLUMNS: dict[str, tuple[str, str]] = {
    "hour": ("timestamp", "start of the hour, UTC"),
    "agent_id": ("string", "who did it"),
    "task_type": ("string", "one of the configured types"),
    "tasks": ("int64", "points"),
    "successes": ("int64", "points that succeeded"),
    "quality_sum": ("double", "sum of overall scores"),
    "latency_ms_sum": ("double", "sum of milliseconds"),
    "tokens_sum": ("int64", "sum of tokens in and out, as far as known"),
    "timed_tasks": ("int64", "points that have a latency; null where all have, as in rows of earlier versions"),
    "tool_tasks": ("int64", "points with a tool call; null where counted before this was"),
    "reward_sum": ("double", "sum of total rewards; null where counted before this was"),
    "reward_square_sum": ("double", "sum of squared total rewards; null where counted before this was"),
}


class RowCheck(Struct, frozen=True, kw_only=True):
    """What pandera found. ``failures`` counts rows by the check they fail, ``column: check``."""

    passed: bool
    rows: int
    failures: dict[str, int]


def check_rows(pool: "BenchmarkPool", day: date) -> RowCheck:
    """Hold every row of a day's validated points against the schema.

    Raises:
        PoolError: the lake cannot be read.
    """
    from flywheel.pool.rows import read_frame

    return check_frame(read_frame(pool, VALIDATED, day), task_types=pool.settings.task_types)


def check_frame(frame: "pd.DataFrame", *, task_types: tuple[str, ...]) -> RowCheck:
    """Hold every row of a day's points against the schema. The frame has ``POINT_COLUMNS`` but for ``payload``."""
    import pandera.pandas as pa
    from pandera.errors import SchemaErrors

    def among(gates: frozenset[str]) -> pa.Check:
        return pa.Check(lambda lists: lists.map(gates.issuperset), name="known gates")

    score = pa.Check.in_range(0, 1)
    schema = pa.DataFrameSchema(
        {
            "id": pa.Column(str, unique=True),
            "timestamp": pa.Column("datetime64[us, UTC]"),
            "tenant_id": pa.Column(str, pa.Check.str_length(min_value=1)),
            "task_id": pa.Column(str, pa.Check.str_length(min_value=1)),
            "source": pa.Column(str, nullable=True),
            "task_type": pa.Column(str, pa.Check.isin(task_types)),
            "complexity": pa.Column(str, pa.Check.isin([level.value for level in Complexity])),
            "agent_id": pa.Column(str, pa.Check.str_length(min_value=1)),
            "success": pa.Column(bool),
            "overall_score": pa.Column(float, score),
            "total_reward": pa.Column(float),
            "latency_ms": pa.Column(float, pa.Check.gt(0), nullable=True),
            "tokens_used": pa.Column("Int64", pa.Check.ge(0), nullable=True),
            "tool_calls": pa.Column("Int64", pa.Check.ge(0), nullable=True),
            "rl_ready": pa.Column(bool),
            "warnings": pa.Column(object, among(WARNING_GATES)),
            "waived": pa.Column(object, among(WAIVABLE_GATES)),
        },
        checks=pa.Check(
            lambda table: ~table["success"] | (table["overall_score"] > 0) | (table["waived"].map(len) > 0),
            name="a success has a score above 0",
        ),
    )
    try:
        schema.validate(frame, lazy=True)
    except SchemaErrors as error:
        cases = error.failure_cases
        counts = cases.groupby([cases["column"].fillna("row"), cases["check"]]).size()
        failures = {f"{column}: {check}": int(count) for (column, check), count in counts.items()}
        return RowCheck(passed=False, rows=len(frame), failures=failures)
    return RowCheck(passed=True, rows=len(frame), failures={})
