"""``flywheel agents``: whom the arbiter routes to."""

import getpass
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table
from flywheel.cli.waiting import minute

if TYPE_CHECKING:
    from flywheel.arbiter.capability_events import CapabilityEvent
    from flywheel.arbiter.listing import ListedAgent, ShownAgent
    from flywheel.arbiter.profiles import Status
    from flywheel.settings import Settings

KINDS = ("openai", "local", "python", "command", "reference")


@click.group(cls=Group)
def agents() -> None:
    """List, show, add, enable and disable the arbiter's agents, and see what they turned out to be able to do.

    \b
    Examples:
      flywheel agents list
      flywheel agents add gpt-small --kind openai --base-url http://localhost:8000/v1 --model qwen3
      flywheel agents disable gpt-small --reason "its key expires"
    """


@agents.command("list")
@click.option("--status", type=click.Choice(("active", "disabled")), help="Only these.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_command(load: "Callable[[], Settings]", /, *, status: "Status | None", as_json: bool) -> None:
    """List the agents with what they have done and what they are busy with, in all processes.

    \b
    Example:
      flywheel agents list --json
    """
    from flywheel.arbiter.listing import list_agents
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        found = list_agents(engine, status=status)
    if as_json:
        print_json([flat(agent) for agent in found])
        return
    print_table(
        ("agent", "kind", "availability", "tasks", "success", "quality", "active", "queued", "USD/M in · out", "name"),
        [
            (
                agent.profile.id,
                agent.profile.kind,
                agent.availability,
                agent.profile.record.tasks,
                agent.profile.record.success_rate,
                agent.profile.record.mean_quality,
                agent.load.active,
                agent.load.queued,
                f"{agent.profile.usd_per_million_input_tokens:g} · {agent.profile.usd_per_million_output_tokens:g}",
                agent.profile.name,
            )
            for agent in found
        ],
    )


@agents.command("show")
@click.argument("agent_id")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show_command(load: "Callable[[], Settings]", /, *, agent_id: str, as_json: bool) -> None:
    """Show everything that is known about an agent: profile, record, load, every change of it, measured changes.

    \b
    Example:
      flywheel agents show reference
    """
    from flywheel.arbiter.listing import show_agent
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        found = show_agent(engine, agent_id)
    if as_json:
        print_json(flat(found) | {"history": found.history, "events": found.events})
        return
    fields = flat(found)
    record, load_now = as_fields(fields.pop("record")), as_fields(fields.pop("load"))
    print_mapping(fields | record | load_now)
    click.echo("\nhistory")
    print_table(
        ("revision", "at (UTC)", "by", "reason", "changes"),
        [
            (change.revision, minute(change.changed_at), change.changed_by, change.reason, differences(change.changes))
            for change in found.history
        ],
    )
    if found.events:
        click.echo("\nmeasured changes, newest first")
        print_events(found.events)


@agents.command("add")
@click.argument("agent_id")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="How it is asked (docs/arbiter.md).")
@click.option("--model", help="local: base, a folder or models:/NAME/VERSION; openai: its name there.")
@click.option("--base-url", help="openai: for example http://localhost:8000/v1")
@click.option("--api-key-env", help="openai: variable that holds the key. [default: OPENAI_API_KEY]")
@click.option("--function", help="python: module:function, sync or async.")
@click.option("--command", help="command: program and arguments, as a shell would read them; no shell is started.")
@click.option("--name", help="For people. [default: the id]")
@click.option("--model-family", help="Whose record it begins with. [default: its model]")
@click.option("--prompt", type=click.Choice(("zero-shot", "few-shot")), help="[default: zero-shot]")
@click.option("--temperature", type=click.FloatRange(0, 2), help="[default: 0]")
@click.option("--timeout-s", type=click.FloatRange(0, min_open=True), help="For one task, with retries. [default: 60]")
@click.option("--max-concurrent", type=click.IntRange(1), help="Calls at once in a process. [default: 10]")
@click.option("--requests-per-minute", type=click.IntRange(1), help="openai. [default: no limit]")
@click.option("--tokens-per-minute", type=click.IntRange(1), help="openai: in and out. [default: no limit]")
@click.option("--usd-per-million-input-tokens", type=click.FloatRange(0), help="[default: 0]")
@click.option("--usd-per-million-output-tokens", type=click.FloatRange(0), help="[default: 0]")
@click.option("--task-type", "task_types", multiple=True, help="What it may be given; may be repeated. [default: all]")
@click.option("--language", "languages", multiple=True, help="May be repeated. [default: all]")
@click.option("--specialization", "specializations", multiple=True, help="May be repeated. [default: function-calling]")
@click.option("--version", "version", help="Its owner's name for it. [default: 1]")
@click.pass_obj
def add_command(load: "Callable[[], Settings]", /, agent_id: str, **options: Any) -> None:
    """Register an agent, or replace the profile of the one of this id. The arbiter routes to it from its next task on.

    Keys are never stored: an agent knows only the name of the variable that holds its key. An agent that was disabled
    stays so.

    \b
    Examples:
      flywheel agents add gpt-small --kind openai --base-url https://api.openai.com/v1 --model gpt-4.1-mini
      flywheel agents add mine --kind local --model ~/models/mine --prompt few-shot
      flywheel agents add solver --kind command --command "python solve.py --fast" --timeout-s 30
    """
    import msgspec

    from flywheel.arbiter.profiles import profile_of, settings_of
    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import connected, engine_of
    from flywheel.errors import AgentExistsError, ProfileError

    given = {name: value for name, value in options.items() if value not in (None, ())}
    try:
        if "command" in given:
            given["command"] = shlex.split(given["command"])
        described = settings_of({"id": agent_id, **given})
    except (ProfileError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    settings = connected(load())
    profile = profile_of(described, settings)
    with engine_of(settings) as engine:
        registry = AgentRegistry(engine)
        try:
            kept = registry.add(profile, by=getpass.getuser())
        except AgentExistsError:
            kept = registry.change(
                agent_id,
                lambda present: msgspec.structs.replace(profile, status=present.status),
                by=getpass.getuser(),
                reason="replaced by `flywheel agents add`",
            )
    click.echo(f"{agent_id} is registered, revision {kept.revision}{'' if kept.status == 'active' else ', disabled'}")


@agents.command("disable")
@click.argument("agent_id")
@click.option("--reason", default="", help="Why, for its history.")
@click.pass_obj
def disable_command(load: "Callable[[], Settings]", /, *, agent_id: str, reason: str) -> None:
    """Let the arbiter route nothing more to an agent. What it did stays known; `agents enable` takes it back.

    \b
    Example:
      flywheel agents disable reference
    """
    set_status(load(), agent_id, "disabled", reason=reason)


@agents.command("enable")
@click.argument("agent_id")
@click.option("--reason", default="", help="Why, for its history.")
@click.pass_obj
def enable_command(load: "Callable[[], Settings]", /, *, agent_id: str, reason: str) -> None:
    """Let the arbiter route to a disabled agent again.

    \b
    Example:
      flywheel agents enable reference
    """
    set_status(load(), agent_id, "active", reason=reason)


@agents.command("measure")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def measure_command(load: "Callable[[], Settings]", /, *, as_json: bool) -> None:
    """Test the outcomes of all agents: what can they do that they could not, what do they do better or worse?

    As often as you like: the error rate holds over all looks together. With `capabilities.apply = true` profiles are
    changed by what is found; otherwise it is proposed. `flywheel tasks run` does the same at its end.

    \b
    Example:
      flywheel agents measure
    """
    from flywheel.arbiter.capability_events import look
    from flywheel.cli.connection import engine_of

    settings = load()
    with engine_of(settings) as engine:
        found = look(engine, settings.capabilities)
    show_events(found, as_json=as_json, none="nothing has changed that the outcomes could show")


@agents.command("events")
@click.option("--agent", "agent_id", help="Only of this agent.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def events_command(load: "Callable[[], Settings]", /, *, agent_id: str | None, limit: int, as_json: bool) -> None:
    """List measured changes of what agents can do, newest first, each with its evidence.

    \b
    Example:
      flywheel agents events --agent gpt-small
    """
    from flywheel.arbiter.capability_events import events
    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        if agent_id is not None:
            AgentRegistry(engine).get(agent_id)
        found = events(engine, agent_id=agent_id, limit=limit)
    show_events(found, as_json=as_json, none="no change was measured yet")


@agents.command("apply")
@click.argument("event_id", type=int)
@click.pass_obj
def apply_command(load: "Callable[[], Settings]", /, *, event_id: int) -> None:
    """Change an agent's profile as a measured change proposes.

    \b
    Example:
      flywheel agents apply 12
    """
    from flywheel.arbiter.capability_events import apply_event
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        profile = apply_event(engine, event_id, by=getpass.getuser())
    click.echo(f"{profile.id} is at revision {profile.revision}")


def set_status(settings: "Settings", agent_id: str, status: "Status", *, reason: str) -> None:
    """Change whether an agent is routed to."""
    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import engine_of

    with engine_of(settings) as engine:
        AgentRegistry(engine).set_status(agent_id, status, by=getpass.getuser(), reason=reason)
    click.echo(f"{agent_id} is {status}")


def flat(agent: "ListedAgent | ShownAgent") -> dict[str, Any]:
    """The profile's fields with load and availability beside them."""
    return as_fields(agent.profile) | {"availability": agent.availability, "load": agent.load}


def as_fields(struct: Any) -> dict[str, Any]:
    """A struct's fields."""
    import msgspec

    return msgspec.structs.asdict(struct)


def differences(changes: dict[str, tuple[Any, Any]]) -> str:
    """What a revision changed, in words."""
    return "; ".join(f"{name}: {before!r} → {after!r}" for name, (before, after) in changes.items())


def show_events(found: "tuple[CapabilityEvent, ...]", *, as_json: bool, none: str) -> None:
    """Measured changes as JSON or as a table."""
    if as_json:
        print_json(found)
    elif found:
        print_events(found)
    else:
        click.echo(none)


def print_events(found: "tuple[CapabilityEvent, ...]") -> None:
    """Measured changes, one a line."""
    print_table(
        ("id", "at (UTC)", "agent", "kind", "what", "proposal"),
        [(e.id, minute(e.detected_at), e.agent_id, e.kind, e.sentence, proposal(e)) for e in found],
    )


def proposal(event: "CapabilityEvent") -> str:
    """What an event proposes and whether that was done."""
    if event.proposal is None:
        return "-"
    return f"{event.proposal}, applied by {event.applied_by}" if event.applied_at else event.proposal
