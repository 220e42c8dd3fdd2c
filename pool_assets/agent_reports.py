"""What the day says of every agent, for people to read."""

from datetime import date

import dagster as dg

from flywheel.reports.comparison import compare_agents
from flywheel.reports.feedback import COLUMNS, digest_of, feedback_reports
from flywheel.reports.tables import comparison_table, comparison_title, feedback_sentences, feedback_table
from pool_assets.agent_statistics import agent_statistics
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, column_schema, markdown_list, markdown_table
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds={"python", "postgres"},
    owners=OWNERS,
    partitions_def=days,
    deps=[agent_statistics],
    metadata={"dagster/column_schema": column_schema(COLUMNS)},
)
def agent_reports(
    context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.MaterializeResult[None]:
    """The daily feedback report on each agent, and the agents beside each other over the day's week and month.

    Trends over four weeks with the test that calls them, measured changes of what an agent can do, training needs and
    strengths. `flywheel reports` makes the same of any day.
    """
    day = date.fromisoformat(context.partition_key)
    with benchmark_pool.open() as pool:
        reports = feedback_reports(pool, day)
        week, month = (compare_agents(pool, period, until=day) for period in ("week", "month"))
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(reports),
            "feedback": markdown_table(*feedback_table(reports)),
            "changes_needs_strengths": markdown_list(feedback_sentences(reports)),
            "week": markdown_table(*comparison_table(week), title=comparison_title(week)),
            "month": markdown_table(*comparison_table(month), title=comparison_title(month)),
        },
        data_version=dg.DataVersion(digest_of(reports)),
    )
