"""The registry keeps profiles, and what people changed survives a restart."""

import threading
from functools import partial

import msgspec
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.profiles import changed, settings_of
from flywheel.arbiter.registry import AgentProfile, AgentRegistry, TrackRecord
from flywheel.arbiter.settings import AgentSettings
from flywheel.database import connect
from flywheel.errors import (
    AgentExistsError,
    ConfigurationError,
    ProfileError,
    StaleRevisionError,
    UnknownAgentError,
)
from flywheel.settings import Settings

PROFILE = AgentProfile(
    id="small",
    kind="local",
    name="a small model",
    model="models:/small/3",
    model_family="llama",
    task_types=("add",),
    languages=("en",),
    specializations=("arithmetic",),
    prompt="few-shot",
    temperature=0.7,
    usd_per_million_input_tokens=1.5,
    usd_per_million_output_tokens=6.0,
    revision=1,
    version="3",
)


@pytest.fixture
def engine(database_url: str) -> Engine:
    return connect(database_url)


def test_a_profile_comes_back_as_it_was_registered(engine: Engine) -> None:
    AgentRegistry(engine).register(PROFILE)
    assert AgentRegistry(engine).get("small") == PROFILE
    assert AgentRegistry(engine).list() == (PROFILE,)
    assert PROFILE.record == TrackRecord(tasks=0)


def test_registering_again_replaces_the_profile(engine: Engine) -> None:
    registry = AgentRegistry(engine)
    registry.register(PROFILE)
    registry.register(AgentProfile(id="small", kind="local", model="models:/small/4", version="4"))
    assert registry.get("small").version == "4"
    assert len(registry.list()) == 1


def test_a_disabled_agent_stays_disabled_when_the_platform_starts_again(engine: Engine, settings: Settings) -> None:
    registry = AgentRegistry(engine)
    configured = settings.model_copy(update={"agents": (AgentSettings(id="reference", kind="reference"),)})
    assert registry.seed_from_settings(configured) == 1
    registry.set_status("reference", "disabled")
    assert registry.seed_from_settings(configured) == 0
    assert registry.get("reference").status == "disabled"
    assert registry.list(status="active") == ()


def test_an_unknown_agent_is_named(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="there is no agent 'nobody'"):
        AgentRegistry(engine).get("nobody")
    with pytest.raises(ConfigurationError, match="there is no agent 'nobody'"):
        AgentRegistry(engine).set_status("nobody", "disabled")


def test_every_change_is_a_revision_that_says_who_why_and_what(engine: Engine) -> None:
    registry = AgentRegistry(engine)
    registry.register(PROFILE, by="ann", reason="a better one")
    registry.change("small", lambda p: msgspec.structs.replace(p, temperature=0.2, task_types=()), by="bob")
    registry.set_status("small", "disabled", by="cy", reason="too dear")
    first, second, third = registry.history("small")
    assert (first.revision, first.changed_by, first.reason, first.changes) == (1, "ann", "a better one", {})
    assert second.changes == {"temperature": (0.7, 0.2), "task_types": (["add"], [])}
    assert (third.changed_by, third.reason, third.changes) == ("cy", "too dear", {"status": ("active", "disabled")})
    assert first.changed_at < second.changed_at < third.changed_at
    assert registry.get("small").revision == 3
    assert registry.at_revision("small", 1) == PROFILE
    with pytest.raises(UnknownAgentError, match="no revision 4"):
        registry.at_revision("small", 4)


def test_what_changes_nothing_is_no_revision(engine: Engine) -> None:
    registry = AgentRegistry(engine)
    registry.register(PROFILE)
    assert registry.register(PROFILE).revision == 1
    registry.set_status("small", "active")
    assert len(registry.history("small")) == 1


def test_changes_at_the_same_time_are_all_kept(engine: Engine) -> None:
    registry = AgentRegistry(engine)
    registry.register(PROFILE)

    def add_type(profile: AgentProfile, number: int) -> AgentProfile:
        return msgspec.structs.replace(profile, task_types=(*profile.task_types, f"t{number}"))

    def add_types(start: int) -> None:
        for number in range(start, start + 10):
            registry.change("small", partial(add_type, number=number))

    threads = [threading.Thread(target=add_types, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.get("small").task_types) == 31
    assert [change.revision for change in registry.history("small")] == list(range(1, 32))


def test_a_change_that_was_decided_on_an_older_revision_is_refused(engine: Engine) -> None:
    registry = AgentRegistry(engine)
    registry.register(PROFILE)
    registry.set_status("small", "disabled")
    with pytest.raises(StaleRevisionError, match="is at revision 2, the change was decided on 1"):
        registry.change("small", lambda p: msgspec.structs.replace(p, status="active"), revision=1)
    assert registry.get("small").status == "disabled"


def test_an_id_is_added_once(engine: Engine) -> None:
    AgentRegistry(engine).add(PROFILE)
    with pytest.raises(AgentExistsError, match="there is an agent 'small' already"):
        AgentRegistry(engine).add(PROFILE)


def test_an_agent_costs_what_its_tokens_in_and_out_cost() -> None:
    assert PROFILE.cost_usd(input_tokens=1_000_000, output_tokens=500_000) == pytest.approx(1.5 + 3.0)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "openai", "model": "x"}, "needs base_url"),
        ({"kind": "openai", "model": "x", "base_url": "ftp://x"}, "needs base_url"),
        ({"kind": "python", "function": "no colon"}, "needs function as module:function, not 'no colon'"),
        ({"kind": "command"}, "needs command"),
        ({"kind": "reference", "max_concurrent": 0}, "max_concurrent: Input should be greater than 0"),
        ({"kind": "reference", "name": "a\0b"}, "name: a text cannot have NUL"),
        ({"kind": "reference", "task_types": ("a\ud800",)}, "task_types.0: a text cannot have"),
        ({"kind": "reference", "timeout_s": float("inf")}, "timeout_s: Input should be a finite number"),
        ({"kind": "reference", "colour": "red"}, "colour: Extra inputs are not permitted"),
    ],
)
def test_an_agent_that_lacks_what_its_kind_needs_is_refused(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ProfileError, match=told):
        settings_of({"id": "a", **fields})


def test_a_changed_profile_keeps_to_the_bounds() -> None:
    assert changed(PROFILE, {"temperature": 1.0}, status="disabled").temperature == 1.0
    with pytest.raises(ProfileError, match="temperature"):
        changed(PROFILE, {"temperature": 3.0})
