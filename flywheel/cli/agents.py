"""``flywheel agents``: whom the arbiter routes to."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.registry import Status
    from flywheel.settings import Settings


@click.group()
def agents() -> None:
    """List, show, add and disable the arbiter's agents.

    \b
    Examples:
      flywheel agents list
      flywheel agents add gpt-small --kind openai --base-url http://localhost:8000/v1 --model qwen3
      flywheel agents disable gpt-small
    """


@agents.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_agents(load: "Callable[[], Settings]", as_json: bool) -> None:
    """List the agents with what they have done.

    \b
    Example:
      flywheel agents list --json
    """
    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        found = AgentRegistry(engine).list()
    if as_json:
        print_json(found)
        return
    print_table(
        ("agent", "kind", "status", "tasks", "success rate", "quality", "name"),
        [(a.id, a.kind, a.status, a.record.tasks, a.record.success_rate, a.record.mean_quality, a.name) for a in found],
    )


@agents.command("show")
@click.argument("agent_id")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show_agent(load: "Callable[[], Settings]", agent_id: str, as_json: bool) -> None:
    """Show everything that is known about an agent.

    \b
    Example:
      flywheel agents show reference
    """
    import msgspec

    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        found = AgentRegistry(engine).get(agent_id)
    if as_json:
        print_json(found)
    else:
        fields = msgspec.structs.asdict(found)
        record = fields.pop("record")
        print_mapping(fields | msgspec.structs.asdict(record))


@agents.command("add")
@click.argument("agent_id")
@click.option("--kind", type=click.Choice(("local", "openai")), required=True, help="Where the model runs.")
@click.option("--model", required=True, help="local: base, a folder or models:/NAME/VERSION; openai: its name.")
@click.option("--base-url", default="", help="openai: for example http://localhost:8000/v1")
@click.option("--api-key-env", default="OPENAI_API_KEY", show_default=True, help="Variable that holds the key.")
@click.option("--prompt", type=click.Choice(("zero-shot", "few-shot")), default="zero-shot", show_default=True)
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True)
@click.option("--usd-per-million-tokens", type=click.FloatRange(0), default=0.0, show_default=True)
@click.option("--task-type", "task_types", multiple=True, help="What it may be given; may be repeated. [default: all]")
@click.pass_obj
def add_agent(load: "Callable[[], Settings]", /, agent_id: str, **options: object) -> None:
    """Register an agent, or change one of this id. The arbiter routes to it from its next task on.

    Keys are never stored: an agent knows only the name of the variable that holds its key.

    \b
    Examples:
      flywheel agents add gpt-small --kind openai --base-url https://api.openai.com/v1 --model gpt-4.1-mini
      flywheel agents add mine --kind local --model ~/models/mine --prompt few-shot
    """
    from pydantic import ValidationError

    from flywheel.arbiter.registry import AgentRegistry, profile_of
    from flywheel.arbiter.settings import AgentSettings
    from flywheel.cli.connection import connected, engine_of

    settings = connected(load())
    try:
        configured = AgentSettings.model_validate({"id": agent_id, **options})
    except ValidationError as error:
        raise click.UsageError(str(error)) from None
    with engine_of(settings) as engine:
        AgentRegistry(engine).register(profile_of(configured, settings))
    click.echo(f"{agent_id} is registered")


@agents.command("disable")
@click.argument("agent_id")
@click.pass_obj
def disable_agent(load: "Callable[[], Settings]", agent_id: str) -> None:
    """Let the arbiter route nothing more to an agent. What it did stays known; `agents enable` takes it back.

    \b
    Example:
      flywheel agents disable reference
    """
    set_status(load(), agent_id, "disabled")


@agents.command("enable")
@click.argument("agent_id")
@click.pass_obj
def enable_agent(load: "Callable[[], Settings]", agent_id: str) -> None:
    """Let the arbiter route to a disabled agent again.

    \b
    Example:
      flywheel agents enable reference
    """
    set_status(load(), agent_id, "active")


def set_status(settings: "Settings", agent_id: str, status: "Status") -> None:
    """Change whether an agent is routed to."""
    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import engine_of

    with engine_of(settings) as engine:
        AgentRegistry(engine).set_status(agent_id, status)
    click.echo(f"{agent_id} is {status}")
