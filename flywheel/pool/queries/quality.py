"""The quality of some days as their validation and privacy check left it, against the targets of SPEC section 3."""

from collections import Counter
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from flywheel.errors import NotInPoolError
from flywheel.pool.expectations import MAX_DUPLICATES, MIN_CLEAN, MIN_RL_READY, MIN_SCHEMA_VALID
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import ValidationReport, fraction

COUNTS = ("lines", "points", "quarantined", "duplicates", "waiting")


class Target(Struct, frozen=True, kw_only=True):
    """One target, whether it is met, and a sentence with both numbers. Shares are 0–1, ``count`` ones are numbers."""

    name: str
    value: float
    target: float
    passed: bool
    verdict: str


class QualityReport(Struct, frozen=True, kw_only=True):
    """The quality of the validated days of a range.

    ``pass_rate`` is of lines judged, ``clean_fraction`` of tasks, ``schema_valid_fraction`` of distinct lines,
    ``duplicate_fraction`` of all lines, ``rl_ready_fraction`` of points; each 0–1. ``quarantined_by_gate`` counts
    lines, ``warnings_by_gate`` points. ``unverified_days`` have points whose privacy check has not run.
    """

    first: date
    last: date
    days: int
    lines: int
    points: int
    quarantined: int
    duplicates: int
    waiting: int
    pass_rate: float
    clean_fraction: float
    schema_valid_fraction: float
    rl_ready_fraction: float
    duplicate_fraction: float
    privacy_violations: int
    unverified_days: int
    quarantined_by_gate: dict[str, int]
    warnings_by_gate: dict[str, int]
    targets: tuple[Target, ...]
    passed: bool


def validate_quality(pool: BenchmarkPool, first: date | None = None, last: date | None = None) -> QualityReport:
    """Hold the days from ``first`` to ``last``, both included, against the targets. None: from or to the end.

    Raises:
        NotInPoolError: no day of the range was validated.
        DatabaseError: PostgreSQL cannot be used.
    """
    asked = (first or date.min, last or date.max)
    with pool.transaction() as connection:
        days = [day for (day,) in connection.execute("SELECT day FROM days WHERE day BETWEEN %s AND %s", asked)]
        with pool.as_service(connection):  # a principal may see that a day is there, and what is summed below
            rows = connection.execute(
                "SELECT day, report, coalesce(privacy_violations, 0),"
                " points > 0 AND privacy_violations IS NULL AND points_removed_at IS NULL FROM days"
                " WHERE report IS NOT NULL AND day = ANY(%s) ORDER BY day",
                (days,),
            ).fetchall()
    if not rows:
        span = f"from {first or 'the first'} to {last or 'the last'}"
        raise NotInPoolError(f"no day {span} was validated; `flywheel pool status` lists the days")
    reports = [msgspec.convert(report, ValidationReport) for _, report, _, _ in rows]
    violations, unverified = sum(row[2] for row in rows), sum(row[3] for row in rows)
    counts: dict[str, int] = {name: sum(getattr(report, name) for report in reports) for name in COUNTS}
    shares: dict[str, Any] = shares_of(reports)
    targets = targets_of(shares, violations=violations, unverified=unverified)
    return QualityReport(
        first=rows[0][0],
        last=rows[-1][0],
        days=len(rows),
        **counts,
        **shares,
        privacy_violations=violations,
        unverified_days=unverified,
        quarantined_by_gate=summed([report.reasons for report in reports]),
        warnings_by_gate=summed([report.warnings for report in reports]),
        targets=targets,
        passed=all(target.passed for target in targets),
    )


def shares_of(reports: list[ValidationReport]) -> dict[str, float]:
    """The shares of several days together, by their names in ``QualityReport``."""
    lines = sum(report.lines for report in reports)
    points = sum(report.points for report in reports)
    in_points = sum(report.lines_in_points for report in reports)
    quarantined = sum(report.quarantined for report in reports)
    duplicates = sum(report.duplicates for report in reports)
    distinct = lines - duplicates
    valid = sum(report.schema_valid_fraction * (report.lines - report.duplicates) for report in reports)
    ready = sum(report.rl_ready_fraction * report.points for report in reports)
    return {
        "pass_rate": fraction(in_points, in_points + quarantined),
        "clean_fraction": fraction(points, points + sum(report.quarantined_tasks for report in reports)),
        "schema_valid_fraction": fraction(round(valid), distinct),
        "rl_ready_fraction": fraction(round(ready), points),
        "duplicate_fraction": duplicates / lines if lines else 0.0,
    }


def targets_of(shares: dict[str, float], *, violations: int, unverified: int) -> tuple[Target, ...]:
    """Every target with its verdict."""
    least = (
        ("clean_fraction", MIN_CLEAN, "of the tasks are clean"),
        ("schema_valid_fraction", MIN_SCHEMA_VALID, "of the lines are schema-valid"),
        ("rl_ready_fraction", MIN_RL_READY, "of the points are ready for reinforcement learning"),
    )
    found = [
        judged(
            name, shares[name], least_share, shares[name] >= least_share, f"{what}, at least {least_share:.0%} asked"
        )
        for name, least_share, what in least
    ]
    copies = shares["duplicate_fraction"]
    found.append(
        judged(
            "duplicate_fraction",
            copies,
            MAX_DUPLICATES,
            copies < MAX_DUPLICATES,
            f"of the lines are duplicates, less than {MAX_DUPLICATES:.0%} asked",
        )
    )
    verdict = f"{violations:,} privacy violations are open and {unverified:,} days unverified, none allowed"
    clear = not violations and not unverified
    found.append(Target(name="privacy_violations", value=violations, target=0, passed=clear, verdict=verdict))
    return tuple(found)


def judged(name: str, value: float, target: float, passed: bool, words: str) -> Target:
    """A target of a share."""
    return Target(name=name, value=value, target=target, passed=passed, verdict=f"{value:.2%} {words}")


def summed(counts: list[dict[str, int]]) -> dict[str, int]:
    """Counts of several days together, the most frequent first."""
    total: Counter[str] = Counter()
    for part in counts:
        total.update(part)
    return dict(total.most_common())
