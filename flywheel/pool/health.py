"""Is collection well? The alerts of SPEC section 11, as the table that is there. Pure: readings in, alerts out.

What an alert compares with comes from before the window it judges, never from the window itself. Fractions are 0–1.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import sqrt
from typing import Literal

from msgspec import Struct

from flywheel.pool.halts import Halt, halted_because
from flywheel.pool.settings import HealthSettings

Severity = Literal["warning", "critical"]

MIN_DEVIATION = 0.01  # of rewards, which are 0–1: where all are the same, a hundredth is no drift
MIN_EARLIER = 2  # times the points judged: a deviation of fewer says little


class Alert(Struct, frozen=True, kw_only=True):
    """Something that a person should look at. ``since`` is when what it was seen in began; ``subject`` may be empty."""

    name: str
    subject: str
    severity: Severity
    message: str
    since: datetime

    @property
    def key(self) -> str:
        """What it is called as long as it lasts."""
        return f"{self.name} of {self.subject}" if self.subject else self.name


class Mean(Struct, frozen=True):
    """Tasks and the sum of a quantity 0–1 over them."""

    tasks: int = 0
    total: float = 0.0

    @property
    def value(self) -> float:
        """The mean; 0 of nothing."""
        return self.total / self.tasks if self.tasks else 0.0

    def and_of(self, other: "Mean") -> "Mean":
        """The mean over both."""
        return Mean(self.tasks + other.tasks, self.total + other.total)


class Volume(Struct, frozen=True, kw_only=True):
    """Points in one full hour, and in the same hour of the days ``before``: by how many days that was.

    They are 7, 14, 21 and 28 days; in a pool that is younger than a week 1 to 6. ``last_hour`` is the last one with
    points up to this one; None where four weeks had none.
    """

    hour: datetime
    points: int
    before: Mapping[int, int]
    last_hour: datetime | None


class Failures(Struct, frozen=True, kw_only=True):
    """Tasks of the days validated in the window: how many were judged, how many of them quarantined."""

    judged: int
    failed: int
    since: datetime


class Window(Struct, frozen=True):
    """A quantity's mean over the time from a moment to the present one."""

    mean: Mean
    since: datetime


class Course(Struct, frozen=True, kw_only=True):
    """A quantity over time: the windows that are judged, and the earlier periods that they are compared with.

    The periods end before the longest window begins, so that a fall that lasts is not what it is compared with: the
    newest of them, and two more, lie further back, where a slow decline has not yet been.
    """

    windows: tuple[Window, ...]
    earlier: tuple[Mean, ...]


class Rewards(Struct, frozen=True, kw_only=True):
    """A task type's newest whole block of points, and mean and deviation of the points of earlier hours."""

    task_type: str
    since: datetime
    block: Mean
    earlier: int
    mean: float
    deviation: float


class Readings(Struct, frozen=True, kw_only=True):
    """What the alerts judge, as the ledger stood at one moment. ``violations`` are those of points that are there."""

    halts: tuple[Halt, ...]
    violations: int
    violations_since: datetime | None
    volume: Volume
    failures: Failures
    quality: Course
    adoption: Course
    rewards: tuple[Rewards, ...]


class Finding(Struct, frozen=True):
    """What a rule has seen, since when, and of what."""

    message: str
    since: datetime
    subject: str = ""


Rule = Callable[[Readings, HealthSettings], Iterator[Finding]]


class Alarm(Struct, frozen=True):
    """A row of the table. ``limit`` says from where on it calls, with its unit, under given settings."""

    name: str
    says: str
    severity: Severity
    limit: Callable[[HealthSettings], str]
    rule: Rule


def too_few_points(readings: Readings, limits: HealthSettings) -> Iterator[Finding]:
    """An hour of an active pool had fewer points than it should.

    The pool counts as active in an hour where the same hour had enough points in one of the four weeks before (on one
    of the days before, while the pool is younger than a week): nights and weekends without work are not missed, and
    few points do not become usual before they lasted four weeks. It also counts as active only where there was a point
    within ``inactive_after_hours``, so that a pool nobody feeds falls silent; and where no halt keeps points out.
    """
    volume = readings.volume
    days, usual = max(volume.before.items(), key=lambda before: before[1], default=(0, 0))
    if readings.halts or usual < limits.points_per_hour or volume.last_hour is None:
        return
    if volume.hour - volume.last_hour > timedelta(hours=limits.inactive_after_hours):
        return
    if volume.points < limits.points_per_hour:
        yield Finding(
            f"{volume.points:,} points in the hour from {volume.hour:%Y-%m-%d %H:%M} UTC, at least "
            f"{limits.points_per_hour:,} expected; {days} days before it had {usual:,}",
            volume.hour,
        )


def too_many_failures(readings: Readings, limits: HealthSettings) -> Iterator[Finding]:
    """More than the allowed fraction of the tasks that were judged in the window is quarantined."""
    failures = readings.failures
    if failures.judged < limits.min_tasks:
        return
    failed_fraction = failures.failed / failures.judged
    if failed_fraction > limits.failed_fraction:
        yield Finding(
            f"{failures.failed:,} of {failures.judged:,} tasks validated in the last {limits.window_hours} h are "
            f"quarantined: {failed_fraction:.1%}, {limits.failed_fraction:.0%} allowed",
            failures.since,
        )


def any_violation(readings: Readings, limits: HealthSettings) -> Iterator[Finding]:
    """Anonymized points hold what they should not, or a halt for that reason is open."""
    del limits
    if readings.halts:
        yield Finding(halted_because(readings.halts), min(halt.opened_at for halt in readings.halts))
    elif readings.violations and readings.violations_since:
        yield Finding(f"{readings.violations:,} privacy violations are in the pool", readings.violations_since)


def quality_drop(readings: Readings, limits: HealthSettings) -> Iterator[Finding]:
    """The mean overall score is lower than it was."""
    yield from drop("mean quality", readings.quality, limits)


def adoption_drop(readings: Readings, limits: HealthSettings) -> Iterator[Finding]:
    """The fraction of tasks with a tool call is lower than it was."""
    yield from drop("tool adoption", readings.adoption, limits)


def drop(what: str, course: Course, limits: HealthSettings) -> Iterator[Finding]:
    """A window's mean is lower than an earlier period's by the relative fraction, and by more than chance.

    The windows are the last hours and the last week: a fall that a day's few tasks cannot show is seen in a week's. Of
    the periods that a window fell below the one with the highest mean is named.
    """
    for window in course.windows:
        higher = [earlier for earlier in course.earlier if fell(window.mean, earlier, limits)]
        if higher:
            usual, now = max(higher, key=lambda earlier: earlier.value), window.mean
            yield Finding(
                f"{what} is {now.value:.3f} over {now.tasks:,} tasks since {window.since:%Y-%m-%d %H:%M} UTC, "
                f"{1 - now.value / usual.value:.1%} below the {usual.value:.3f} of {usual.tasks:,} before",
                window.since,
            )
            return


def fell(window: Mean, earlier: Mean, limits: HealthSettings) -> bool:
    """Whether the relative fall reaches the limit and is more than ``limits.drop_z`` standard errors.

    The error is that of the difference of two proportions of pooled mean p, √(p(1 − p)(1/n + 1/N)): exact for
    fractions of tasks, an upper bound for other quantities within 0–1 (Bhatia and Davis, 2000).

    Several looks: every hour brings a new pair of windows, and each is held against up to three periods. At 4 errors
    a quantity raises less than one false alarm a year, at 3 it could be six (``tests/pool/test_drops.py``).
    """
    if window.tasks < limits.min_tasks or not earlier.value:
        return False
    pooled = window.and_of(earlier).value
    error = sqrt(max(pooled * (1 - pooled), 0.0) * (1 / window.tasks + 1 / earlier.tasks))
    relative = round(1 - window.value / earlier.value, 9)  # a tenth is a tenth, whatever its last bit
    return relative >= limits.drop_fraction and earlier.value - window.value >= limits.drop_z * error


def reward_drift(readings: Readings, limits: HealthSettings) -> Iterator[Finding]:
    """A task type's last points earn more or less than its earlier ones: |z| > ``limits.z``, by default 3 over 50.

    z = (m − μ) / (σ·√(1/n + 1/N)): m is the mean reward of the n points, μ and σ are mean and deviation of the N points
    of earlier hours. With a long past that is σ/√n, the standard error of a mean of n; with a short one μ itself is
    uncertain.

    Several looks: the n points are the type's newest whole block of n, counted from its first point on. Looking again
    changes nothing, its points are in no other block, and each type has its own: false alarms are 2(1 − Φ(3)) = 0.27 %
    of the blocks, one in 18,500 points, whatever the number of types and of looks. (The newest n points at every look
    would overlap, and cry some ten times as often.) That is exact where points come in the order of their days: k
    points that come late for an earlier day move all later boundaries by k, and some points are judged in a second
    block. A lasting change is found within 2n − 1 points, and becomes usual when it fills the days that are looked at.
    """
    for rewards in readings.rewards:
        if rewards.block.tasks < limits.drift_points or rewards.earlier < MIN_EARLIER * limits.drift_points:
            continue
        z = z_of(rewards)
        if abs(z) > limits.z:
            yield Finding(
                f"the mean reward of the last {rewards.block.tasks:,} points of {rewards.task_type} is "
                f"{rewards.block.value:.3f}, of the {rewards.earlier:,} before {rewards.mean:.3f} ± "
                f"{rewards.deviation:.3f}: z = {z:+.1f}, ±{limits.z:g} allowed",
                rewards.since,
                rewards.task_type,
            )


def z_of(rewards: Rewards) -> float:
    """How many standard errors the block's mean is away from the earlier points'."""
    error = max(rewards.deviation, MIN_DEVIATION) * sqrt(1 / rewards.block.tasks + 1 / rewards.earlier)
    return (rewards.block.value - rewards.mean) / error


ALARMS: tuple[Alarm, ...] = (
    Alarm(
        "volume",
        "an active pool gets few points",
        "warning",
        lambda limits: f"fewer than {limits.points_per_hour:,} points in the last full hour",
        too_few_points,
    ),
    Alarm(
        "validation_failures",
        "many tasks fail their gates",
        "warning",
        lambda limits: f"more than {limits.failed_fraction:.0%} of the tasks judged in {limits.window_hours} hours",
        too_many_failures,
    ),
    Alarm(
        "privacy",
        "something personal is left; halts the pool",
        "critical",
        lambda _: "more than 0 violations in the anonymized points, or an open halt",
        any_violation,
    ),
    Alarm(
        "quality_drop",
        "answers get worse",
        "warning",
        lambda limits: f"mean score {limits.drop_fraction:.0%} (relative) or more below an earlier month",
        quality_drop,
    ),
    Alarm(
        "tool_adoption_drop",
        "agents use tools less",
        "warning",
        lambda limits: f"tasks with a tool call {limits.drop_fraction:.0%} (relative) or more below an earlier month",
        adoption_drop,
    ),
    Alarm(
        "reward_drift",
        "a task type's rewards change",
        "warning",
        lambda limits: f"|z| above {limits.z:g} standard errors over {limits.drift_points} points",
        reward_drift,
    ),
)


def judge_health(readings: Readings, limits: HealthSettings) -> tuple[Alert, ...]:
    """Every alert that is active, in the table's order; empty for a pool that is well."""
    return tuple(
        Alert(
            name=alarm.name,
            subject=finding.subject,
            severity=alarm.severity,
            message=finding.message,
            since=finding.since,
        )
        for alarm in ALARMS
        for finding in alarm.rule(readings, limits)
    )


def begun(before: Mapping[str, str], active: Sequence[Alert]) -> tuple[Alert, ...]:
    """The alerts that were not active before; ``before`` is by ``Alert.key``."""
    return tuple(alert for alert in active if alert.key not in before)


def ended(before: Mapping[str, str], active: Sequence[Alert]) -> tuple[str, ...]:
    """The keys of alerts that no longer are active."""
    keys = {alert.key for alert in active}
    return tuple(key for key in before if key not in keys)
