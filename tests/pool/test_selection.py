"""Which points go into a batch."""

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.selection import Offer, apportioned, choose, one_a_task, stratified
from flywheel.settings import BatchSettings, PhaseThreshold

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def offer(number: int, **fields: object) -> Offer:
    base: dict[str, object] = {
        "id": f"p{number:04}",
        "timestamp": NOW - timedelta(minutes=number),
        "source_task": f"bench:{number}",
        "task_type": "research",
        "complexity": "standard",
        "agent_id": "a",
        "success": True,
        "overall_score": 0.9,
    }
    merged = {**base, **fields}
    return Offer(day=merged["timestamp"].date(), **merged)  # type: ignore[attr-defined,arg-type]


def criteria(*, sft: int = 10, grpo: int = 10) -> BatchSettings:
    row = PhaseThreshold(points=1, quality=0.8, max_age_days=90)
    return BatchSettings(sft=row, grpo=row, max_sft_points=sft, max_grpo_points=grpo)


offers = st.lists(
    st.builds(
        lambda n, task, kind, ok, score, age: offer(
            n,
            id=f"p{n}-{task}",
            source_task=f"bench:{task}",
            task_type=kind,
            success=ok,
            overall_score=score,
            timestamp=NOW - timedelta(days=age),
        ),
        st.integers(0, 10_000),
        st.integers(0, 30),
        st.sampled_from(["research", "design", "planning"]),
        st.booleans(),
        st.floats(0, 1),
        st.integers(0, 200),
    ),
    max_size=60,
    unique_by=lambda o: o.id,
)


@given(offers)
def test_no_task_is_in_two_phases_and_none_twice_in_one(known: list[Offer]) -> None:
    choice = choose(known, criteria=criteria(), marked={}, now=NOW)
    tasks = [o.source_task for o in (*choice.sft, *choice.grpo)]
    assert len(tasks) == len(set(tasks))
    assert len(choice.sft) <= 10
    assert len(choice.grpo) <= 10


@given(offers)
def test_sft_takes_only_young_successes_of_high_quality(known: list[Offer]) -> None:
    for chosen in choose(known, criteria=criteria(), marked={}, now=NOW).sft:
        assert chosen.success
        assert chosen.overall_score >= 0.8
        assert chosen.timestamp >= NOW - timedelta(days=90)


@given(offers, st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_offers(known: list[Offer], random: object) -> None:
    shuffled = list(known)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose(shuffled, criteria=criteria(), marked={}, now=NOW) == choose(
        known, criteria=criteria(), marked={}, now=NOW
    )


def test_a_marked_point_is_not_chosen_again_for_its_phase() -> None:
    known = [offer(1), offer(2)]
    choice = choose(known, criteria=criteria(), marked={"sft": {"p0001"}}, now=NOW)
    assert [o.id for o in choice.sft] == ["p0002"]
    assert [o.id for o in choice.grpo] == ["p0001"]


def test_grpo_learns_from_failures_that_sft_leaves_out() -> None:
    failed = offer(3, success=False, overall_score=0.1)
    choice = choose([offer(1), failed], criteria=criteria(), marked={}, now=NOW)
    assert [o.id for o in choice.sft] == ["p0001"]
    assert [o.id for o in choice.grpo] == ["p0003"]


def test_the_best_point_of_a_task_stands_for_it() -> None:
    worse, better = offer(1, source_task="t", overall_score=0.8), offer(2, source_task="t", overall_score=0.9)
    assert one_a_task([better, worse]) == [better]


def test_strata_get_their_share_and_the_recent_come_first() -> None:
    many = [offer(n) for n in range(30)]
    few = [offer(100 + n, task_type="design") for n in range(10)]
    chosen = stratified([*few, *many], size=8)
    assert sum(o.task_type == "design" for o in chosen) == 2
    assert [o.id for o in chosen if o.task_type == "research"] == [f"p{n:04}" for n in range(6)]


@given(st.dictionaries(st.tuples(st.text(max_size=2), st.text(max_size=2)), st.integers(1, 500), min_size=1))
def test_all_seats_are_given_and_no_stratum_gets_more_than_it_has(sizes: dict[tuple[str, str], int]) -> None:
    total = sum(sizes.values())
    for seats in {0, 1, total // 2, total}:
        given_seats = apportioned(sizes, seats=seats)
        assert sum(given_seats.values()) == seats
        assert all(given_seats[name] <= sizes[name] for name in sizes)


@given(offers)
def test_for_sft_alone_nothing_is_kept_for_grpo_and_what_nobody_timed_takes_part(known: list[Offer]) -> None:
    both = criteria(sft=1000)
    alone = both.model_copy(update={"sft_only": True})
    unmeasured = [msgspec.structs.replace(offer, rl_ready=False) for offer in known]
    expected = choose(known, criteria=both, marked={}, now=NOW).sft
    choice = choose(unmeasured, criteria=alone, marked={}, now=NOW)
    assert choice.grpo == ()
    assert [offer.id for offer in choice.sft] == [offer.id for offer in expected]
    assert choose(unmeasured, criteria=both, marked={}, now=NOW).sft == ()
