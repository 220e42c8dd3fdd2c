"""Statistics across tiers, held against sums over single points."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as rules
from hypothesis import strategies as st

from flywheel.errors import NotInPoolError
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.plan import DayRange
from flywheel.pool.queries.statistics import Figures, figures_of
from flywheel.pool.queries.sums import By, Span
from flywheel.pool.retention import remove_statistics
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.records import DataPoint, utc_day
from tests.pool.logs import Log, task_logs
from tests.pool.queries.conftest import DAYS
from tests.pool.queries.points import (
    AGENTS,
    COMPLEXITIES,
    TENANTS,
    TYPES,
    agrees,
    all_points,
    fill,
    noon,
    place_all,
    tallied,
)
from tests.pool.test_tiers import through_anonymization

NOW = noon(DAYS[-1])
BYS: tuple[By, ...] = get_args(By)
asked = rules(max_examples=25)


@pytest.fixture(scope="module")
def placed(filled: BenchmarkPool) -> BenchmarkPool:
    """The first day has only aggregates, the next one is in the lake, the others are hot."""
    place_all(filled, DAYS, now=NOW)
    return filled


@pytest.fixture(scope="module")
def points(placed: BenchmarkPool) -> list[DataPoint]:
    return all_points(placed, DAYS)


def expected(points: list[DataPoint], where: PointFilter, *, by: By) -> dict[str, Figures]:
    chosen = [point for point in points if agrees(point, where)]
    return {name: figures_of(tally) for name, tally in tallied(chosen, by=by).items()}


def approximately(groups: Mapping[str, Figures]) -> dict[str, Any]:
    return {
        name: pytest.approx({field: getattr(found, field) for field in Figures.__struct_fields__})
        for name, found in groups.items()
    }


def as_mapping(groups: Mapping[str, Figures]) -> dict[str, dict[str, Any]]:
    return {
        name: {field: getattr(found, field) for field in Figures.__struct_fields__} for name, found in groups.items()
    }


def some(values: Any) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), unique=True, max_size=2).map(tuple)


hours = st.none() | st.integers(-5, 24 * 93).map(lambda hour: noon(DAYS[0]) + timedelta(hours=hour))
of_statistics = st.builds(PointFilter, since=hours, until=hours, task_types=some(TYPES), agents=some(AGENTS))


@asked
@given(where=of_statistics, by=st.sampled_from(["task_type", "agent", "day"]))
def test_statistics_are_sums_over_all_tiers(
    placed: BenchmarkPool, points: list[DataPoint], where: PointFilter, by: By
) -> None:
    found = placed.get_system_statistics(by, where)
    assert as_mapping(found.groups) == approximately(expected(points, where, by=by))
    assert found.total.tasks == sum(agrees(point, where) for point in points)
    assert (found.coverage.since, found.coverage.until, found.coverage.left_out) == (where.since, where.until, ())


@asked
@given(where=of_statistics, complexities=some(COMPLEXITIES))
def test_complexity_is_known_of_whole_days_and_of_ends_that_have_points(
    placed: BenchmarkPool, points: list[DataPoint], where: PointFilter, complexities: tuple[str, ...]
) -> None:
    where = PointFilter(
        since=where.since,
        until=where.until,
        task_types=where.task_types,
        agents=where.agents,
        complexities=complexities,
    )
    found = placed.get_system_statistics("complexity", where)
    left_out = {entry.first for entry in found.coverage.left_out}
    known = [point for point in points if utc_day(point.timestamp) not in left_out]
    assert as_mapping(found.groups) == approximately(expected(known, where, by="complexity"))
    span = Span(where.since, where.until)
    assert left_out == {day for day in DAYS[:1] if span.touches(day) and not span.holds(day)}


@asked
@given(
    since=hours,
    until=hours,
    tenant=st.sampled_from([(), *((name,) for name in TENANTS)]),
    quality=st.none() | st.sampled_from([0.5, 0.7]),
    success=st.none() | st.booleans(),
    ready=st.none() | st.booleans(),
    by=st.sampled_from(BYS),
)
def test_what_only_points_know_is_asked_of_points_and_old_days_of_aggregates_or_named(
    *,
    placed: BenchmarkPool,
    points: list[DataPoint],
    since: datetime | None,
    until: datetime | None,
    tenant: tuple[str, ...],
    quality: float | None,
    success: bool | None,
    ready: bool | None,
    by: By,
) -> None:
    hashes = tuple(tenant_hash(name, salt=salt_of(placed.settings)) for name in tenant)
    where = PointFilter(since=since, until=until, tenants=hashes, min_quality=quality, success=success, rl_ready=ready)
    found = placed.get_system_statistics(by, where)
    left_out = {entry.first for entry in found.coverage.left_out}
    known = [point for point in points if utc_day(point.timestamp) not in left_out]
    assert as_mapping(found.groups) == approximately(expected(known, where, by=by))
    assert left_out <= {DAYS[0]}
    whole_answer = (quality, success, ready) == (None, None, None) and by != "complexity"
    if whole_answer and Span(since, until).holds(DAYS[0]):
        assert not left_out


def test_an_agent_is_known_per_task_type_and_over_all(placed: BenchmarkPool, points: list[DataPoint]) -> None:
    found = placed.get_agent_statistics("agent-a")
    mine = [point for point in points if point.routing.selected_agent_id == "agent-a"]
    assert (found.agent_id, found.tasks, found.successes) == (
        "agent-a",
        len(mine),
        sum(point.execution.success for point in mine),
    )
    assert as_mapping(found.by_task_type) == approximately(expected(mine, PointFilter(), by="task_type"))
    one = placed.get_agent_statistics("agent-a", PointFilter(task_types=("research",), since=noon(DAYS[1])))
    assert one.tasks == sum(point.task.type == "research" and point.timestamp >= noon(DAYS[1]) for point in mine)
    nobody = placed.get_agent_statistics("nobody")
    assert (nobody.tasks, nobody.success_rate, nobody.by_task_type) == (0, None, {})


def test_a_range_is_of_whole_hours_and_says_so(placed: BenchmarkPool, points: list[DataPoint]) -> None:
    where = PointFilter(since=noon(DAYS[1]) + timedelta(minutes=20), until=noon(DAYS[3]) - timedelta(minutes=20))
    found = placed.get_system_statistics("agent", where)
    assert (found.coverage.since, found.coverage.until) == (noon(DAYS[1]) + timedelta(hours=1), noon(DAYS[3]))
    hours = PointFilter(since=found.coverage.since, until=found.coverage.until)
    assert found.total.tasks == sum(agrees(point, hours) for point in points)


def test_the_pool_as_a_whole(placed: BenchmarkPool, points: list[DataPoint]) -> None:
    found = placed.get_statistics()
    assert (found.counts["points"], found.counts["lines"]) == (len(points), 3 * len(points))
    assert (found.first_day, found.last_day, found.agents, found.batches) == (DAYS[0], DAYS[-1], 3, 0)
    assert {tier: (totals.days, totals.rows) for tier, totals in found.tiers.items() if tier != "cold"} == {
        "hot": (2, 48),
        "warm": (3, 72),
    }
    assert found.tiers["cold"].days == 4
    assert as_mapping(found.by_task_type) == approximately(expected(points, PointFilter(), by="task_type"))


DAY = date(2026, 3, 2)
NEXT = DayRange(DAY + timedelta(days=1), DAY + timedelta(days=1))


@pytest.fixture
def small(pool: BenchmarkPool) -> BenchmarkPool:
    fill(pool, [DAY, DAY + timedelta(days=1)], tasks=12)
    return pool


@pytest.mark.parametrize("age", [0, 30, 100])
def test_a_day_without_statistics_is_answered_from_its_tier_once(small: BenchmarkPool, age: int) -> None:
    for day in (DAY, DAY + timedelta(days=1)):
        for place in (place_hot, place_warm, aggregate_cold):
            place(small, day, now=noon(day) + timedelta(days=age))
    whole = small.get_agent_statistics("agent-a")
    remove_statistics(small, DAY, NOW)
    again = small.get_agent_statistics("agent-a")
    assert (again.tasks, again.successes, again.tokens) == (whole.tasks, whole.successes, whole.tokens)
    assert again.mean_latency_ms == pytest.approx(whole.mean_latency_ms)
    expected_source = again.coverage.from_aggregates if age == 100 else again.coverage.from_points
    assert expected_source == (DayRange(DAY, DAY),)
    by_complexity = small.get_system_statistics("complexity")
    assert by_complexity.total.tasks == (12 if age == 100 else 24)
    assert by_complexity.coverage.left_out == ((DayRange(DAY, DAY),) if age == 100 else ())


def test_a_day_that_is_neither_counted_nor_placed_is_named(small: BenchmarkPool) -> None:
    remove_statistics(small, DAY, NOW)
    coverage = small.get_agent_statistics("agent-a").coverage
    assert coverage.unplaced == (DayRange(DAY, DAY),)
    end = PointFilter(since=noon(DAY + timedelta(days=1)))
    assert small.get_system_statistics("complexity", end).coverage.unplaced == (NEXT,)
    refresh_statistics(small, DAY)
    assert small.get_agent_statistics("agent-a").coverage.unplaced == ()


def test_a_day_whose_logs_changed_is_named(small: BenchmarkPool) -> None:
    assert small.get_system_statistics().coverage.out_of_date == ()
    with small.transaction() as connection:
        connection.execute("UPDATE days SET revision = revision + 1 WHERE day = %s", (DAY,))
    assert small.get_system_statistics().coverage.out_of_date == (DayRange(DAY, DAY),)


def test_quality_is_judged_against_the_targets_in_numbers(small: BenchmarkPool) -> None:
    for day in (DAY, DAY + timedelta(days=1)):
        anonymize_day(small, day)
    found = small.validate_quality()
    assert (found.first, found.last, found.days, found.points, found.lines) == (DAY, DAY + timedelta(days=1), 2, 24, 72)
    assert (found.clean_fraction, found.pass_rate, found.duplicate_fraction) == (1.0, 1.0, 0.0)
    assert (found.unverified_days, found.passed) == (2, False)
    for day in (DAY, DAY + timedelta(days=1)):
        find_violations(small, day)
    assert small.validate_quality(DAY, DAY).passed


def test_quality_counts_what_each_gate_turned_away(pool: BenchmarkPool) -> None:
    good = [log for number in range(8) for log in task_logs(f"t{number}")]
    bad: list[Log | bytes] = [*task_logs("bad", overallScore=7), b"broken", task_logs("t1")[0]]
    through_anonymization(pool, "a", [*good, *bad])
    find_violations(pool, DAY)
    found = pool.validate_quality(DAY, DAY)
    assert found.quarantined_by_gate["bounds"] == 1
    assert found.quarantined_by_gate["types"] == 1
    assert found.duplicates == 1
    assert found.clean_fraction == pytest.approx(8 / 10)
    failed = {target.name: target for target in found.targets if not target.passed}
    assert "clean_fraction" in failed
    assert "at least 95% asked" in failed["clean_fraction"].verdict
    assert not found.passed


def test_quality_of_days_that_were_never_validated_is_not_known(pool: BenchmarkPool) -> None:
    with pytest.raises(NotInPoolError, match="no day from 2026-03-02 to the last was validated"):
        pool.validate_quality(DAY)


def test_a_batch_that_is_not_there_is_said(pool: BenchmarkPool) -> None:
    with pytest.raises(NotInPoolError, match="there is no batch b1"):
        pool.get_batch("b1")


def test_statistics_are_arrow_and_pandas_too(placed: BenchmarkPool) -> None:
    system = placed.get_system_statistics("agent")
    table = system.table()
    assert table.column_names == ["agent", *Figures.__struct_fields__]
    assert {row.pop("agent"): Figures(**row) for row in table.to_pylist()} == system.groups
    frame = system.frame()
    assert frame.set_index("agent")["tasks"].to_dict() == {name: of.tasks for name, of in system.groups.items()}
    assert frame.attrs["coverage"] == msgspec.json.decode(msgspec.json.encode(system.coverage))
    one = placed.get_agent_statistics("agent-a")
    assert set(one.frame()["task_type"]) == set(one.by_task_type)
    nobody = placed.get_agent_statistics("nobody").table()
    assert (nobody.num_rows, nobody.schema.types) == (0, placed.get_agent_statistics("agent-a").table().schema.types)
