"""What a day should look like: a Great Expectations suite, its history, and data docs that people open.

Run once per day and never per record (docs of measured fixed costs: DESIGN, decision 3). Rows are judged by the gates
before this; here the day is judged as a whole, against the targets of SPEC section 3.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_frame
from flywheel.pool.schemas import VALIDATED
from flywheel.pool.validation import last_report

if TYPE_CHECKING:
    import pandas as pd

MIN_CLEAN = 0.95
MIN_SCHEMA_VALID = 0.98
MIN_RL_READY = 0.90
MAX_DUPLICATES = 0.01


class DayResult(Struct, frozen=True, kw_only=True):
    """The suite's verdict on a day. ``failed`` says which expectations did not hold; ``data_docs`` is a page's path."""

    passed: bool
    expectations: int
    failed: tuple[str, ...]
    data_docs: str


def data_docs_index(home: Path) -> Path:
    """The page people open."""
    return home / "great_expectations" / "gx" / "uncommitted" / "data_docs" / "local_site" / "index.html"


def expect_day(pool: BenchmarkPool, day: date) -> DayResult:
    """Validate a day's points and its account, and renew the data docs. A day without points has nothing to judge.

    Raises:
        PoolError: the day was never validated, or the lake cannot be read.
    """
    report = last_report(pool, day)
    home = pool.settings.home
    if not report.points:
        return DayResult(passed=True, expectations=0, failed=(), data_docs=str(data_docs_index(home)))
    shares = {
        "clean": report.clean_fraction,
        "schema_valid": report.schema_valid_fraction,
        "rl_ready": report.rl_ready_fraction,
        "duplicates": report.duplicate_fraction,
    }
    return expect_frames(
        read_frame(pool, VALIDATED, day), shares, day=day, home=home, task_types=pool.settings.task_types
    )


def expect_frames(
    points: "pd.DataFrame", shares: Mapping[str, float], *, day: date, home: Path, task_types: tuple[str, ...]
) -> DayResult:
    """Validate a day and renew the data docs.

    Args:
        points: the day's validated points, columns of ``POINT_COLUMNS`` without the payload; not empty.
        shares: ``clean``, ``schema_valid``, ``rl_ready`` and ``duplicates`` of the day, each 0–1.
        day: the partition; its midnight is the validation's run time, so that a backfill replaces it.
        home: the installation's folder.
        task_types: the known ones.
    """
    with locked_context(home) as context:
        import pandas as pd

        results = [
            run_suite(
                context,
                "points",
                points,
                points_expectations(task_types, timed=bool(points["latency_ms"].notna().any())),
                day=day,
            ),
            run_suite(context, "day", pd.DataFrame([dict(shares)]), day_expectations(), day=day),
        ]
        context.build_data_docs()
    outcomes = [outcome for result in results for outcome in result.results]
    failed = tuple(described(outcome) for outcome in outcomes if not outcome.success)
    return DayResult(passed=not failed, expectations=len(outcomes), failed=failed, data_docs=str(data_docs_index(home)))


def points_expectations(task_types: tuple[str, ...], *, timed: bool) -> list[Any]:
    """What the points of a day should look like together. ``timed``: whether any of them has a latency."""
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=1),
        gxe.ExpectColumnValuesToBeUnique(column="id"),
        gxe.ExpectColumnValuesToNotBeNull(column="agent_id"),
        gxe.ExpectColumnValuesToBeInSet(column="task_type", value_set=list(task_types)),
        gxe.ExpectColumnMeanToBeBetween(column="overall_score", min_value=0, max_value=1),
        *([gxe.ExpectColumnMedianToBeBetween(column="latency_ms", min_value=0, strict_min=True)] if timed else []),
        gxe.ExpectColumnValuesToBeBetween(column="tokens_used", min_value=0),
    ]


def day_expectations() -> list[Any]:
    """The targets of SPEC section 3."""
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnMinToBeBetween(column="clean", min_value=MIN_CLEAN),
        gxe.ExpectColumnMinToBeBetween(column="schema_valid", min_value=MIN_SCHEMA_VALID),
        gxe.ExpectColumnMinToBeBetween(column="rl_ready", min_value=MIN_RL_READY),
        gxe.ExpectColumnMaxToBeBetween(column="duplicates", max_value=MAX_DUPLICATES, strict_max=True),
    ]


def run_suite(context: Any, name: str, frame: "pd.DataFrame", expectations: list[Any], *, day: date) -> Any:
    """Validate a frame; the result is stored under the day and replaces an earlier one."""
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier

    source = context.data_sources.add_or_update_pandas("pool")
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("partition")
    suite = context.suites.add_or_update(gx.ExpectationSuite(name=name, expectations=expectations))
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=name, data=batch, suite=suite)
    )
    run = RunIdentifier(run_name=str(day), run_time=datetime.combine(day, time(), tzinfo=UTC))
    return definition.run(batch_parameters={"dataframe": frame}, run_id=run)


def described(outcome: Any) -> str:
    """A failed expectation in one line, with what was seen."""
    config = outcome.expectation_config
    column = config.kwargs.get("column")
    seen = outcome.result.get("observed_value", f"{outcome.result.get('unexpected_count')} unexpected values")
    return f"{config.type}{f' of {column}' if column else ''}: {seen}"


@contextmanager
def locked_context(home: Path) -> Iterator[Any]:
    """The file context of the data docs, one process at a time: it rewrites shared files."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    root = home / "great_expectations"
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        context = gx.get_context(mode="file", project_root_dir=str(root))
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        yield context
