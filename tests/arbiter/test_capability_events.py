"""What agents can do is learned from their outcomes: found once, with its evidence, and applied only where told so."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.capability_events import MEASURED, CapabilityEvent, apply_event, events, look
from flywheel.arbiter.outcomes import Outcome, record_new
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.arbiter.settings import CapabilitySettings
from flywheel.database import connect
from flywheel.errors import NoSuchEventError

START = datetime(2026, 3, 1, tzinfo=UTC)
PROPOSING = CapabilitySettings()
APPLYING = CapabilitySettings(apply=True)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    registry = AgentRegistry(engine)
    registry.register(AgentProfile(id="narrow", kind="reference", task_types=("add", "subtract")))
    registry.register(AgentProfile(id="broad", kind="reference"))
    yield engine
    engine.dispose()


def run(
    engine: Engine,
    agent_id: str,
    task_type: str,
    outcomes: list[bool],
    *,
    after: int = 0,
    languages: tuple[str, ...] = (),
    specializations: tuple[str, ...] = (),
) -> None:
    """Outcomes a minute apart, the first so many minutes after the start."""
    rows = []
    for number, success in enumerate(outcomes, start=after):
        at = START + timedelta(minutes=number)
        rows.append(
            Outcome(
                tenant_id="acme",
                task_id=f"{agent_id}-{task_type}-{number}",
                label="before",
                source_id="s",
                task_type=task_type,
                agent_id=agent_id,
                success=success,
                quality=float(success),
                latency_ms=1.0,
                evaluated_at=at,
                task=RoutedTask(task_type=task_type, languages=languages, specializations=specializations),
            )
        )
    with engine.begin() as connection:
        assert len(record_new(connection, rows)) == len(outcomes)


def often(good: int, of: int, times: int) -> list[bool]:
    """``good`` successes of every ``of`` tasks, evenly, so many tasks in all."""
    return [number % of < good for number in range(times)]


def told(found: tuple[CapabilityEvent, ...]) -> list[tuple[str, str, str, str, str | None]]:
    return sorted((e.agent_id, e.field, e.name, e.kind, e.proposal) for e in found)


def test_what_a_profile_does_not_name_is_added_when_enough_of_it_succeeded(engine: Engine) -> None:
    run(engine, "narrow", "multiply", often(9, 10, 10))
    assert look(engine, PROPOSING) == ()
    run(engine, "narrow", "multiply", often(9, 10, 40), after=10)
    [event] = look(engine, PROPOSING)
    assert told((event,)) == [("narrow", "task_types", "multiply", "added", "add")]
    evidence = event.evidence
    assert (evidence["tasks"], evidence["successes"], evidence["success_rate"]) == (50, 45, 0.9)
    assert evidence["e_value"] > evidence["needed"] == 40
    assert "45 of 50 tasks succeeded, success rate at most 0.6 is refuted" in event.sentence
    assert AgentRegistry(engine).get("narrow").task_types == ("add", "subtract")
    assert event.applied_at is None


def test_an_agent_that_takes_all_types_is_not_narrowed_by_what_it_does_well(engine: Engine) -> None:
    run(engine, "broad", "multiply", often(9, 10, 60))
    [event] = look(engine, APPLYING)
    assert (event.kind, event.proposal, event.applied_at) == ("added", None, None)
    assert AgentRegistry(engine).get("broad").task_types == ()


def test_nothing_is_found_twice_however_often_one_looks(engine: Engine) -> None:
    run(engine, "narrow", "multiply", often(9, 10, 60))
    assert len(look(engine, PROPOSING)) == 1
    run(engine, "narrow", "multiply", often(9, 10, 60), after=60)
    assert look(engine, PROPOSING) == look(engine, PROPOSING) == ()
    assert len(events(engine)) == 1


def test_several_who_look_at_once_find_one_event(engine: Engine) -> None:
    run(engine, "narrow", "multiply", often(9, 10, 60))
    threads = [threading.Thread(target=look, args=(engine, APPLYING)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(events(engine)) == 1
    assert AgentRegistry(engine).get("narrow").revision == 2


def test_getting_worse_and_better_is_told_with_before_and_after(engine: Engine) -> None:
    run(engine, "narrow", "add", often(9, 10, 200) + often(5, 10, 100))
    [worse] = look(engine, PROPOSING)
    assert told((worse,)) == [("narrow", "task_types", "add", "degraded", "remove")]
    assert worse.evidence["before"] == {"tasks": 200, "successes": 180, "success_rate": 0.9}
    assert worse.evidence["after"]["success_rate"] == 0.5
    assert worse.sentence.startswith("task_types add: 0.900 of 200 tasks → 0.500 of 100 (e-value ")
    run(engine, "narrow", "add", often(5, 10, 100) + often(19, 20, 100), after=300)
    [better] = look(engine, PROPOSING)
    assert (better.kind, better.proposal) == ("improved", None)
    assert better.evidence["before"]["tasks"] == 100, "the test begins anew after an event"


def test_languages_of_tasks_are_learned_too(engine: Engine) -> None:
    run(engine, "narrow", "add", often(9, 10, 60), languages=("python", "en"))
    found = look(engine, PROPOSING)
    assert told(found) == [
        ("narrow", "languages", "en", "added", None),
        ("narrow", "languages", "python", "added", None),
    ]


def test_configuration_lets_events_change_the_profile_and_its_history_says_why(engine: Engine) -> None:
    run(engine, "narrow", "multiply", often(9, 10, 60))
    [event] = look(engine, APPLYING)
    assert event.applied_by == MEASURED
    assert AgentRegistry(engine).get("narrow").task_types == ("add", "subtract", "multiply")
    last = AgentRegistry(engine).history("narrow")[-1]
    assert last.changed_by == MEASURED
    assert last.reason.startswith(f"event {event.id}: task_types multiply: 54 of 60 tasks succeeded")


def test_a_proposal_can_be_applied_later_and_only_once(engine: Engine) -> None:
    run(engine, "narrow", "multiply", often(9, 10, 60))
    [event] = look(engine, PROPOSING)
    assert apply_event(engine, event.id, by="ann").task_types == ("add", "subtract", "multiply")
    assert apply_event(engine, event.id, by="bob").revision == 2
    assert [e.applied_by for e in events(engine, agent_id="narrow")] == ["ann"]


def test_what_cannot_be_applied_is_said(engine: Engine) -> None:
    run(engine, "broad", "multiply", often(9, 10, 60))
    [event] = look(engine, PROPOSING)
    with pytest.raises(NoSuchEventError, match="proposes no change of broad"):
        apply_event(engine, event.id, by="ann")
    with pytest.raises(NoSuchEventError, match="there is no event 4711"):
        apply_event(engine, 4711, by="ann")


def test_the_last_type_that_an_agent_names_is_not_taken_from_it(engine: Engine) -> None:
    run(engine, "narrow", "add", often(9, 10, 200) + often(3, 10, 100))
    [event] = look(engine, PROPOSING)
    AgentRegistry(engine).register(AgentProfile(id="narrow", kind="reference", task_types=("add",)))
    with pytest.raises(NoSuchEventError, match="'add' is all that narrow names as task_types"):
        apply_event(engine, event.id, by="ann")
    assert AgentRegistry(engine).get("narrow").task_types == ("add",)


def test_of_two_that_fell_at_once_the_last_one_stays_proposed_and_every_look_goes_on(engine: Engine) -> None:
    for task_type in ("add", "subtract"):
        run(engine, "narrow", task_type, often(9, 10, 200) + often(1, 10, 200))
    found = look(engine, APPLYING)
    assert [event.proposal for event in found] == ["remove", "remove"]
    assert sorted(event.applied_at is None for event in found) == [False, True]
    assert len(AgentRegistry(engine).get("narrow").task_types) == 1
    assert look(engine, APPLYING) == ()


def test_the_only_specialization_can_be_taken_away_for_none_is_not_all(engine: Engine) -> None:
    AgentRegistry(engine).register(AgentProfile(id="lawyer", kind="reference", specializations=("law",)))
    run(engine, "lawyer", "add", often(9, 10, 200) + often(1, 10, 200), specializations=("law",))
    found = {event.field: event for event in look(engine, APPLYING)}
    assert found["specializations"].applied_at is not None
    assert AgentRegistry(engine).get("lawyer").specializations == ()
