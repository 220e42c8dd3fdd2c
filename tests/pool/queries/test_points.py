"""Points across tiers: each once, the filtered ones, in order, page by page."""

from collections import Counter
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from flywheel.errors import QueryError
from flywheel.pool.anonymization.day import find_violations
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.frames import COVERAGE_KEY
from flywheel.pool.queries.plan import DayRange, ranges
from flywheel.pool.queries.points import LIGHT_COLUMNS, Order, PointQuery, Position
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS
from flywheel.pool.tiers import place_hot, place_warm
from flywheel.records import DataPoint, utc_day
from tests.pool.queries.conftest import DAYS
from tests.pool.queries.points import AGENTS, COMPLEXITIES, TENANTS, TYPES, agrees, all_points, fill, noon, place_all

NOW = noon(DAYS[-1])
asked = rules(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def placed(filled: BenchmarkPool) -> BenchmarkPool:
    """The first day has only aggregates, the next one is in the lake, the others are hot."""
    place_all(filled, DAYS, now=NOW)
    return filled


@pytest.fixture(scope="module")
def points(placed: BenchmarkPool) -> list[DataPoint]:
    return all_points(placed, DAYS[1:])


def filters(pool: BenchmarkPool) -> st.SearchStrategy[PointFilter]:
    hashes = [tenant_hash(name, salt=salt_of(pool.settings)) for name in TENANTS]
    moments = st.none() | st.datetimes(
        datetime.combine(DAYS[0], datetime.min.time()), datetime.combine(DAYS[-1], datetime.max.time())
    ).map(lambda moment: moment.replace(tzinfo=NOW.tzinfo))

    def some(values: Any) -> st.SearchStrategy[tuple[str, ...]]:
        return st.lists(st.sampled_from(values), unique=True, max_size=2).map(tuple)

    return st.builds(
        PointFilter,
        since=moments,
        until=moments,
        task_types=some([*TYPES, "design"]),
        complexities=some(COMPLEXITIES),
        agents=some([*AGENTS, "nobody\x00"]),
        tenants=some(hashes),
        min_quality=st.none() | st.sampled_from([0.0, 0.35, 0.58, 0.7, 1.0]),
        success=st.none() | st.booleans(),
        rl_ready=st.none() | st.booleans(),
    )


@asked
@given(data=st.data(), order=st.sampled_from(["any", "recent", "oldest"]))
def test_a_filter_means_the_same_points_as_in_plain_python(
    placed: BenchmarkPool, points: list[DataPoint], data: st.DataObject, order: Order
) -> None:
    where = data.draw(filters(placed))
    found = list(placed.get_points(PointQuery(where=where, order=order)))
    assert Counter(point.id for point in found) == Counter(point.id for point in points if agrees(point, where))
    assert {point.id: point for point in points if agrees(point, where)} == {point.id: point for point in found}


@rules(asked, max_examples=12)
@given(ages=st.lists(st.sampled_from([0, 5, 8, 40, 90, 91, 500, 731]), min_size=1, max_size=2))
def test_whatever_the_clock_each_point_is_read_once_and_days_without_points_are_named(
    filled: BenchmarkPool, ages: list[int]
) -> None:
    now = NOW
    for age in ages:
        now = NOW + timedelta(days=age)
        place_all(filled, DAYS, now=now)
    query = filled.get_points()
    found = Counter(utc_day(point.timestamp) for point in query)
    held = {day: (now.date() - day).days for day in DAYS}
    assert found == {day: 24 for day, age in held.items() if age <= 90}
    coverage = query.coverage
    assert coverage.hot == ranges(day for day in DAYS if held[day] <= 7)
    assert coverage.warm == ranges(day for day in DAYS if 7 < held[day] <= 90)
    assert coverage.aggregates_only == ranges(day for day in DAYS if 90 < held[day] <= 730)
    place_all(filled, DAYS, now=NOW)


def test_coverage_is_of_the_asked_days(placed: BenchmarkPool) -> None:
    first, second, third, fourth = (DayRange(day, day) for day in DAYS)
    whole = placed.get_points().coverage
    assert (whole.aggregates_only, whole.warm, whole.hot) == ((first,), (second,), (third, fourth))
    where = PointFilter(since=noon(DAYS[1]), until=noon(DAYS[2]))
    part = placed.get_points(PointQuery(where=where)).coverage
    assert (part.aggregates_only, part.warm, part.hot) == ((), (second,), (third,))
    assert ranges(DAYS[0] + timedelta(days=n) for n in (0, 1, 2, 5)) == (
        DayRange(DAYS[0], DAYS[0] + timedelta(days=2)),
        DayRange(DAYS[0] + timedelta(days=5), DAYS[0] + timedelta(days=5)),
    )


@pytest.mark.parametrize("order", ["recent", "oldest"])
def test_points_come_in_order_and_a_limit_keeps_the_first(
    placed: BenchmarkPool, points: list[DataPoint], order: Order
) -> None:
    expected = [p.id for p in sorted(points, key=lambda p: (p.timestamp, p.id), reverse=order == "recent")]
    assert [point.id for point in placed.get_points(PointQuery(order=order))] == expected
    for limit in (0, 1, 30, 50, 1_000):
        assert [p.id for p in placed.get_points(PointQuery(order=order, limit=limit))] == expected[:limit]
    assert len(list(placed.get_points(PointQuery(limit=30)))) == 30


@pytest.mark.parametrize("order", ["recent", "oldest"])
@pytest.mark.parametrize("size", [1, 7, 24, 100])
def test_pages_cover_every_point_once(placed: BenchmarkPool, points: list[DataPoint], order: Order, size: int) -> None:
    where = PointFilter(min_quality=0.5)
    seen: list[str] = []
    after: Position | None = None
    while rows := page(placed, PointQuery(where=where, order=order, limit=size, after=after)):
        seen += [row["id"] for row in rows]
        after = Position(rows[-1]["day"], rows[-1]["timestamp"], rows[-1]["id"])
        assert len(rows) <= size
    wanted = sorted((p for p in points if agrees(p, where)), key=lambda p: (p.timestamp, p.id))
    assert seen == [p.id for p in (reversed(wanted) if order == "recent" else wanted)]


def page(pool: BenchmarkPool, query: PointQuery) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pool.get_points(query).table().to_pylist()
    return rows


def test_arrow_and_pandas_carry_columns_and_coverage(placed: BenchmarkPool, points: list[DataPoint]) -> None:
    query = placed.get_points()
    table = query.table()
    assert table.schema.names == list(LIGHT_COLUMNS)
    assert table.schema.types == arrow_schema({name: POINT_COLUMNS[name] for name in LIGHT_COLUMNS}).types
    rows = {row["id"]: row for day in DAYS[1:] for row in read_rows(placed, ANONYMIZED, day, columns=LIGHT_COLUMNS)}
    assert {row["id"]: row for row in table.to_pylist()} == rows
    coverage = msgspec.json.decode(table.schema.metadata[COVERAGE_KEY])
    assert coverage["aggregates_only"] == [{"first": str(DAYS[0]), "last": str(DAYS[0])}]
    frame = query.frame()
    assert frame.attrs["coverage"] == coverage
    assert len(frame) == len(points)
    chosen = placed.get_points(PointQuery(columns=("latency_ms", "agent_id"), order="recent"))
    assert chosen.reader().read_all().schema.names == ["latency_ms", "agent_id"]


def test_a_reader_that_is_dropped_gives_its_connection_back(placed: BenchmarkPool) -> None:
    for _ in range(30):
        reader = placed.get_points(PointQuery(columns=("payload",))).reader()
        del reader
        batches = iter(placed.get_points())
        next(batches)
        del batches
    assert placed.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (PointQuery(columns=("id", "salary")), "name some of id, day"),
        (PointQuery(columns=()), "cannot be chosen"),
        (PointQuery(limit=-1), "the limit is -1"),
        (PointQuery(after=Position(DAYS[0], NOW, "x")), "needs an order"),
        (PointQuery(where=PointFilter(since=datetime(2026, 3, 2))), "no time zone"),
        (PointQuery(where=PointFilter(min_quality=1.5)), "within 0 and 1"),
    ],
)
def test_what_cannot_be_asked_is_said(placed: BenchmarkPool, query: PointQuery, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        placed.get_points(query)


@pytest.fixture
def two_days(pool: BenchmarkPool) -> tuple[date, date]:
    days = (DAYS[2], DAYS[2] + timedelta(days=1))
    fill(pool, days, tasks=6)
    return days


def mark_late(pool: BenchmarkPool, day: date) -> None:
    with pool.transaction() as connection:
        connection.execute("UPDATE days SET revision = revision + 1 WHERE day = %s", (day,))


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("tiers", ["hot hot", "hot warm", "warm hot", "warm warm"])
@pytest.mark.parametrize("order", ["any", "recent"])
def test_a_task_on_its_way_to_another_day_is_read_once(
    pool: BenchmarkPool, two_days: tuple[date, date], late: int, tiers: str, order: Order
) -> None:
    moving = next(read_rows(pool, ANONYMIZED, two_days[late]))
    other = two_days[1 - late]
    kept = list(read_rows(pool, ANONYMIZED, other))
    pool.replace(ANONYMIZED, other, [*kept, {**moving, "day": other}], schema=arrow_schema(POINT_COLUMNS))
    find_violations(pool, other)
    for day, tier in zip(two_days, tiers.split(), strict=True):
        (place_hot if tier == "hot" else place_warm)(pool, day, now=noon(two_days[1]))
    mark_late(pool, two_days[late])
    query = pool.get_points(PointQuery(order=order, columns=("id",)))
    assert Counter(query.table()["id"].to_pylist()).most_common(1)[0][1] == 1
    assert len(query.table()) == 12
    assert query.coverage.out_of_date == (DayRange(two_days[late], two_days[late]),)


def test_a_day_that_no_tier_holds_yet_is_named(pool: BenchmarkPool, two_days: tuple[date, date]) -> None:
    place_warm(pool, two_days[0], now=noon(two_days[1]))
    coverage = pool.get_points().coverage
    assert (coverage.warm, coverage.unplaced) == (
        (DayRange(two_days[0], two_days[0]),),
        (DayRange(two_days[1], two_days[1]),),
    )


def test_the_tier_that_was_placed_from_newer_logs_is_read(pool: BenchmarkPool, two_days: tuple[date, date]) -> None:
    day = two_days[0]
    for place in (place_hot, place_warm):
        place(pool, day, now=noon(day))
    assert pool.get_points().coverage.hot == (DayRange(day, day),)
    mark_late(pool, day)
    with pool.transaction() as connection:
        connection.execute("UPDATE days SET anonymized_revision = revision")
    place_warm(pool, day, now=noon(day))
    assert pool.get_points().coverage.warm == (DayRange(day, day),)
    assert len(list(pool.get_points())) == 6
