"""Reports as tables and sentences: the same ones in the terminal and on Dagster's pages."""

from collections.abc import Iterable, Iterator, Sequence

from flywheel.pool.queries.statistics import Figures
from flywheel.reports.comparison import Comparison
from flywheel.reports.feedback import QUANTITIES, FeedbackReport
from flywheel.reports.trends import Trend
from flywheel.training.intervals import Interval

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Columns and rows."""
NOTHING = "–"


def feedback_table(reports: Iterable[FeedbackReport]) -> Table:
    """A row for each agent: the day, the window, where it goes."""
    trends = tuple(name.removesuffix("_ms").replace("_", " ") for name, _, _ in QUANTITIES)
    columns = ("agent", "tasks", "success", "4 weeks: tasks", "success", "quality", "ms", *trends)
    rows = [
        (
            report.agent_id,
            f"{report.today.tasks:,}",
            share(report.today.success_rate),
            *figures(report.window),
            *(course(report.trends[name]) for name, _, _ in QUANTITIES),
        )
        for report in reports
    ]
    return columns, rows


def feedback_sentences(reports: Iterable[FeedbackReport]) -> Iterator[str]:
    """What a person should know of the agents: changes of what they can do, needs and strengths."""
    for report in reports:
        for change in report.capability_changes:
            yield f"{report.agent_id}: {change.kind} {change.sentence}"
        for need in report.training_needs:
            yield f"{report.agent_id}: training need, {need.sentence}"
        for strength in report.strengths:
            yield f"{report.agent_id}: strength, {strength.sentence}"


def comparison_table(comparison: Comparison) -> Table:
    """A row for each agent, beside itself in the period before."""
    columns = ("agent", "tasks", "success", "95 %", "quality", "ms", f"{comparison.period} before", "change", "")
    rows = [
        (
            agent.agent_id,
            f"{agent.figures.tasks:,}",
            share(agent.success_rate.value),
            f"{agent.success_rate.low:.1%}–{agent.success_rate.high:.1%}",
            *figures(agent.figures)[2:],
            share(agent.before.success_rate),
            NOTHING if agent.change is None else points(agent.change),
            agent.verdict,
        )
        for agent in comparison.agents
    ]
    return columns, rows


def comparison_title(comparison: Comparison) -> str:
    """Which days are compared."""
    until = "" if comparison.counted_until == comparison.last else f", counted until {comparison.counted_until}"
    return f"{comparison.period} {comparison.first} to {comparison.last}{until}"


def figures(of: Figures) -> Sequence[str]:
    """Tasks, success rate, quality and latency."""
    quality = NOTHING if of.mean_quality is None else f"{of.mean_quality:.3f}"
    latency = NOTHING if of.mean_latency_ms is None else f"{of.mean_latency_ms:,.0f}"
    return f"{of.tasks:,}", share(of.success_rate), quality, latency


def share(value: float | None) -> str:
    """A fraction as per cent."""
    return NOTHING if value is None else f"{value:.1%}"


def points(change: Interval) -> str:
    """A difference of fractions in points of per cent, with its interval."""
    return f"{change.value * 100:+.1f} ({change.low * 100:+.1f} to {change.high * 100:+.1f})"


def course(trend: Trend) -> str:
    """A trend with how sure it is."""
    if trend.direction is None:
        return f"too few days ({trend.days})"
    if trend.direction == "stable":
        return "stable"
    return f"{trend.direction}, {trend.change_per_day:+.3g} a day (p = {trend.p_value:.2g})"
