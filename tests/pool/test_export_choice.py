"""What an export asks for, which points it takes, and on which side of the split they are."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.errors import PoolError
from flywheel.pool.contents import Judgement
from flywheel.pool.export_choice import (
    SPLITS,
    ExportChoice,
    ExportCriteria,
    choose_export,
    criteria_for,
    lacking,
    split_tasks,
)
from flywheel.pool.filters import PointFilter
from flywheel.pool.selection import Offer
from flywheel.settings import Phase, Settings
from flywheel.tasks.source import Split

NOW = datetime(2026, 11, 20, tzinfo=UTC)
TYPES = ("research", "design", "planning")
LEVELS = ("trivial", "standard", "complex")
PHASES: tuple[Phase, ...] = ("sft", "turn-level-rl", "grpo", "curriculum")


def offer(number: int, **fields: Any) -> Offer:
    at = fields.pop("timestamp", NOW - timedelta(minutes=number))
    base: dict[str, Any] = {
        "id": f"p{number:05}",
        "day": at.date(),
        "timestamp": at,
        "source_task": f"tenant/{number}",
        "task_type": TYPES[number % 3],
        "complexity": LEVELS[number % 3],
        "agent_id": f"agent-{number % 4}",
        "success": True,
        "overall_score": 0.9,
    }
    return Offer(**(base | fields))


def criteria(**fields: Any) -> ExportCriteria:
    base: dict[str, Any] = {
        "phase": "grpo",
        "min_points": 1,
        "max_points": 20,
        "min_quality": 0.7,
        "max_age_days": 90,
    }
    return ExportCriteria(**(base | fields))


def chosen(offers: list[Offer], asked: ExportCriteria, marked: set[str] | None = None) -> tuple[Offer, ...]:
    return choose_export(offers, asked, marked=marked or set(), now=NOW).offers


offers = st.lists(
    st.builds(
        lambda n, kind, level, ok, score, age, ready: offer(
            n,
            task_type=kind,
            complexity=level,
            success=ok,
            overall_score=score,
            timestamp=NOW - timedelta(days=age),
            rl_ready=ready,
        ),
        st.integers(0, 10_000),
        st.sampled_from(TYPES),
        st.sampled_from(LEVELS),
        st.booleans(),
        st.floats(0, 1),
        st.integers(0, 200),
        st.booleans(),
    ),
    max_size=60,
    unique_by=lambda o: o.id,
)


@pytest.mark.parametrize(
    ("phase", "row"),
    [
        ("sft", (1_000, 0.8, 90, 3, 1)),
        ("turn-level-rl", (5_000, 0.7, 60, 5, 1)),
        ("grpo", (10_000, 0.7, 90, 1, 10)),
        ("curriculum", (20_000, 0.6, 180, 8, 1)),  # SPEC's seven types, and chats
    ],
)
def test_every_phase_asks_for_its_row_of_the_table(phase: Phase, row: tuple[float, ...]) -> None:
    asked = criteria_for(Settings.load(profile="production"), phase)
    found = (asked.min_points, asked.min_quality, asked.max_age_days, asked.min_task_types, asked.min_agents)
    assert found == row
    assert asked.max_points == 2 * asked.min_points


@pytest.mark.parametrize("phase", PHASES)
@given(known=offers)
def test_every_phase_takes_only_young_points_of_quality(phase: Phase, known: list[Offer]) -> None:
    row = criteria_for(Settings.load(profile="production"), phase)
    for point in chosen(known, row):
        assert point.success
        assert point.overall_score >= row.min_quality
        assert point.timestamp >= NOW - timedelta(days=row.max_age_days)
        assert point.rl_ready or phase == "sft"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"max_points": 10}, "at least 1,000 points and at most 10"),
        ({"include_failures": True}, "SFT learns from successes only"),
        ({"heldout_fraction": 0.6, "validation_fraction": 0.4}, "no share for training"),
        ({"complexity_mix": {"complex": 0.3}}, "sum to 1, not 0.3"),
        ({"complexity_mix": {"complex": float("nan")}}, "sum to 1, not nan"),
        ({"heldout_fraction": float("nan")}, "no share for training"),
        ({"complexity_mix": {"hard": 1.0}}, "complexity hard is none of"),
        ({"min_quality": 80}, "quality 80 is not within"),
        ({"max_age_days": 10**9}, "an age of at most 1,000,000,000 days"),
        ({"only": PointFilter(since=NOW, until=NOW)}, "a time from"),
    ],
)
def test_criteria_that_contradict_each_other_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(PoolError, match=problem):
        criteria_for(Settings.load(profile="production"), "sft", **changes)


def test_no_more_task_types_are_asked_for_than_are_allowed() -> None:
    only = PointFilter(task_types=("research",), agents=("a", "b"))
    settings = Settings.load(profile="production")
    assert criteria_for(settings, "curriculum", only=only).min_task_types == 1
    assert criteria_for(settings, "grpo", only=only).min_agents == 2


@given(offers, st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_offers(known: list[Offer], chance: Any) -> None:
    shuffled = list(known)
    chance.shuffle(shuffled)
    asked = criteria(include_failures=True)
    assert chosen(shuffled, asked) == chosen(known, asked)


@given(offers, st.integers(1, 40))
def test_failures_take_no_place_that_the_least_number_needs(known: list[Offer], least: int) -> None:
    asked = criteria(include_failures=True, min_points=least, max_points=40)
    taken = chosen(known, asked)
    good = chosen(known, criteria(max_points=100))
    assert sum(point.success for point in taken) >= min(least, len(good))
    assert len(taken) <= 40


def test_failures_come_on_top_and_do_not_count_for_the_threshold() -> None:
    known = [offer(n) for n in range(4)] + [offer(100 + n, success=False, overall_score=0.1) for n in range(6)]
    asked = criteria(include_failures=True, min_points=5)
    taken = chosen(known, asked)
    assert len(taken) == 10
    assert list(lacking(ExportChoice(offers=tuple(taken)), asked, configured=TYPES)) == [
        "4 of 5 new points with quality ≥ 0.7 of the last 90 days for grpo"
    ]
    assert len(chosen(known, criteria())) == 4


def test_strata_have_the_shares_of_the_pool_and_the_recent_come_first() -> None:
    many = [offer(n, task_type="research", complexity="standard") for n in range(30)]
    few = [offer(100 + n, task_type="design", complexity="complex") for n in range(10)]
    taken = chosen([*few, *many], criteria(max_points=8))
    assert [point.id for point in taken if point.task_type == "research"] == [f"p{n:05}" for n in range(6)]
    assert [point.id for point in taken if point.task_type == "design"] == ["p00100", "p00101"]


def test_a_mix_is_kept_though_fewer_points_fit_it() -> None:
    known = [offer(n, complexity="trivial") for n in range(50)] + [
        offer(90 + n, complexity="complex") for n in range(3)
    ]
    taken = chosen(known, criteria(complexity_mix={"trivial": 0.7, "complex": 0.3}, max_points=20))
    levels = [point.complexity for point in taken]
    assert (levels.count("trivial"), levels.count("complex")) == (8, 3)


def test_a_mix_of_which_a_share_is_missing_takes_nothing_and_says_so() -> None:
    known = [offer(n, complexity="trivial") for n in range(5)]
    asked = criteria(complexity_mix={"trivial": 0.7, "complex": 0.3}, min_task_types=0)
    found = choose_export(known, asked, marked=set(), now=NOW)
    assert found.offers == ()
    assert next(lacking(found, asked, configured=TYPES)) == (
        "0 of 1 new points with quality ≥ 0.7 of the last 90 days for grpo; "
        "left out are 5 for which the complexity mix has no place"
    )


@given(offers, st.floats(0.05, 0.95))
def test_no_share_of_a_mix_is_off_by_more_than_a_point(known: list[Offer], share: float) -> None:
    taken = chosen(known, criteria(complexity_mix={"trivial": share, "complex": 1 - share}))
    trivial = sum(point.complexity == "trivial" for point in taken)
    assert abs(trivial - share * len(taken)) <= 1
    assert all(point.complexity != "standard" for point in taken)


def test_points_of_any_time_are_chosen_by_their_digest() -> None:
    known = [offer(n, id=f"p{n * 7 % 10}", task_type="design", complexity="standard") for n in range(10)]
    assert [point.id for point in chosen(known, criteria(prefer_recent=False, max_points=3))] == ["p0", "p1", "p2"]


def test_a_marked_point_is_left_out() -> None:
    assert [point.id for point in chosen([offer(1), offer(2)], criteria(), marked={"p00001"})] == ["p00002"]


def test_every_condition_of_the_filter_holds_for_failures_too() -> None:
    known = [offer(n, success=n % 2 == 0, tenant_id=f"t{n % 3}") for n in range(12)]
    only = PointFilter(
        since=NOW - timedelta(minutes=9),
        until=NOW - timedelta(minutes=2),
        task_types=("design", "planning"),
        complexities=("standard",),
        agents=("agent-0", "agent-3"),
        tenants=("t1",),
    )
    taken = chosen(known, criteria(only=only, include_failures=True))
    assert [point.id for point in taken] == ["p00004", "p00007"]


def test_what_content_forbids_is_replaced_by_the_next_and_counted() -> None:
    known = [offer(n, task_type="design", complexity="standard") for n in range(6)]
    bad, double = frozenset({"p00000"}), frozenset({"p00003"})

    def judge(points: Any) -> Judgement:
        ids = {point.id for point in points}
        return Judgement(unusable=bad & ids, near_duplicates=double & ids)

    found = choose_export(known, criteria(max_points=3), marked=set(), now=NOW, judge=judge)
    assert [point.id for point in found.offers] == ["p00001", "p00002", "p00004"]
    assert (found.unusable, found.near_duplicates) == (1, 1)


def test_a_reserve_is_judged_at_once_and_takes_the_place_of_what_gives_way() -> None:
    known = [offer(n, task_type="design", complexity="standard") for n in range(100)]
    rounds: list[int] = []

    def judge(points: Any) -> Judgement:
        rounds.append(len(points))
        return Judgement(near_duplicates=frozenset({"p00000", "p00001"}) & {point.id for point in points})

    found = choose_export(known, criteria(max_points=64), marked=set(), now=NOW, judge=judge)
    assert rounds == [67]
    assert [point.id for point in found.offers] == [f"p{n:05}" for n in range(2, 66)]


def test_the_best_of_the_most_recent_is_judged_first() -> None:
    known = [offer(1, overall_score=0.8), offer(2), offer(3)]
    seen: list[str] = []

    def judge(points: Any) -> Judgement:
        seen.extend(point.id for point in points)
        return Judgement()

    choose_export(known, criteria(), marked=set(), now=NOW, judge=judge)
    assert seen == ["p00002", "p00003", "p00001"]


tasks = st.sets(st.text(min_size=1, max_size=12), max_size=40)


@given(tasks, tasks, st.floats(0, 0.4), st.floats(0, 0.4))
def test_a_task_is_in_one_split_and_in_the_same_in_every_export(
    some: set[str], others: set[str], validation: float, heldout: float
) -> None:
    asked = criteria(validation_fraction=validation, heldout_fraction=heldout)
    first, second = split_tasks(some, asked), split_tasks(some | others, asked)
    assert set(first) == some
    assert set(first.values()) <= set(SPLITS)
    assert all(second[task] == split for task, split in first.items())


def test_splits_have_their_fractions() -> None:
    splits = list(split_tasks([f"task-{n}" for n in range(10_000)], criteria(heldout_fraction=0.2)).values())
    assert splits.count("held-out") == pytest.approx(2_000, abs=150)
    assert splits.count("validation") == pytest.approx(1_000, abs=120)


@given(tasks, tasks)
def test_what_was_held_out_before_stays_held_out(some: set[str], before: set[str]) -> None:
    splits = split_tasks(some, criteria(heldout_fraction=0, validation_fraction=0), held_out=before)
    assert {task for task, split in splits.items() if split == "held-out"} == some & before


def test_a_benchmark_s_own_split_is_kept() -> None:
    published = {"b:1": Split.HELDOUT, "b:2": Split.VALIDATION, "b:3": Split.TRAIN}
    asked = criteria(heldout_fraction=0, validation_fraction=0)
    assert split_tasks([*published, "other"], asked, published=published) == {
        "b:1": "held-out",
        "b:2": "validation",
        "b:3": "train",
        "other": "train",
    }


def test_what_is_missing_is_said_in_numbers() -> None:
    asked = criteria(min_points=5, min_task_types=3, min_agents=2, phase="curriculum")
    taken = [offer(0, agent_id="a"), offer(3, agent_id="a")]
    assert list(lacking(ExportChoice(offers=tuple(taken)), asked, configured=TYPES)) == [
        "2 of 5 new points with quality ≥ 0.7 of the last 90 days for curriculum",
        "1 of 3 task types for curriculum: no design, planning",
        "1 of 2 agents for curriculum",
    ]


@given(offers)
def test_no_more_is_chosen_than_asked_for(known: list[Offer]) -> None:
    assert len(chosen(known, criteria(max_points=7, include_failures=True))) <= 7
