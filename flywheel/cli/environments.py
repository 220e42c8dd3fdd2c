"""``flywheel tasks list|show|verify``: look at the tasks of environments, have an agent do them, verify answers."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.agents.strategy import Agent
    from flywheel.arbiter.episodes import Episode
    from flywheel.settings import Settings, TasksSettings
    from flywheel.tasks.environment import Verification
    from flywheel.tasks.source import SourceTask

REFERENCE = "reference"
FAILED = 1


def chosen_tasks(
    tasks: "TasksSettings",
    task_ids: Sequence[str],
    *,
    source: str | None = None,
    split: str | None = None,
    first: int | None = None,
) -> "list[SourceTask]":
    """The tasks of these ids, or the first of a source."""
    from flywheel.errors import TaskSourceError
    from flywheel.tasks.catalog import environment_name, environment_of

    if source is not None:
        found = environment_of(source, tasks).tasks()
        return [task for task in found if split in {None, task.split}][:first]
    chosen = []
    for task_id in task_ids:
        try:
            chosen.append(environment_of(environment_name(task_id), tasks).by_id(task_id))
        except KeyError:
            name = environment_name(task_id)
            raise TaskSourceError(
                f"{name} has no task {task_id!r}; `flywheel tasks list --source {name}` lists them"
            ) from None
    return chosen


@click.command("list")
@click.option("--source", help="One source's tasks; without it, the sources there are.")
@click.option("--split", type=click.Choice(("train", "validation", "heldout")), help="Only this split.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_tasks(load: "Callable[[], Settings]", source: str | None, split: str | None, as_json: bool) -> None:
    """List the sources of tasks, or the tasks of one.

    \b
    Examples:
      flywheel tasks list
      flywheel tasks list --source code-repair --split train
    """
    tasks = load().tasks
    if source is None:
        _show_sources(tasks, as_json=as_json)
        return
    found = chosen_tasks(tasks, (), source=source, split=split)
    rows = [
        {"id": task.id, "type": task.task_type, "category": task.category, "split": str(task.split)} for task in found
    ]
    if as_json:
        print_json(rows)
        return
    print_table(("id", "type", "category", "split"), [tuple(row.values()) for row in rows])


@click.command("show")
@click.argument("task_id")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show_task(load: "Callable[[], Settings]", task_id: str, as_json: bool) -> None:
    """Show what an agent is asked in a task, and which tools there are.

    \b
    Example:
      flywheel tasks show code-repair:clamp
    """
    from flywheel.tasks.catalog import environment_name, environment_of

    tasks = load().tasks
    (task,) = chosen_tasks(tasks, (task_id,))
    opening = environment_of(environment_name(task_id), tasks).run(task).opening()
    if as_json:
        print_json(
            {
                "id": task.id,
                "type": task.task_type,
                "complexity": task.complexity,
                "split": task.split,
                "tools": [tool.name for tool in task.tools],
                "messages": [{"role": message.role, "content": message.content} for message in opening],
            }
        )
        return
    click.echo(f"{task.id}: {task.task_type}, {task.complexity}, {task.split}")
    for message in opening:
        click.echo(f"\n[{message.role}]\n{message.content}")


def try_tasks(
    settings: "Settings", tasks: "Sequence[SourceTask]", *, agent_id: str, transcript: bool, as_json: bool
) -> None:
    """Have one agent do tasks, print what came of it, and leave with exit code 1 where not all were done."""
    from flywheel.arbiter.episodes import play
    from flywheel.tasks.catalog import environment_name, environment_of

    episodes = play(
        agent_of(settings, agent_id),
        tasks,
        lambda task: environment_of(environment_name(task.id), settings.tasks).run(task),
    )
    _show_episodes(episodes, transcript=transcript, as_json=as_json)
    if not all(_done(episode) for episode in episodes):
        click.get_current_context().exit(FAILED)


@click.command("verify")
@click.argument("task_id")
@click.argument("answers", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def verify_answers(load: "Callable[[], Settings]", task_id: str, answers: tuple[Path, ...], as_json: bool) -> None:
    """Verify answers to a task, a text file for each turn; without any, the known solution.

    Exit code 1: the task is not done.

    \b
    Examples:
      flywheel tasks verify code-repair:clamp answer.md
      flywheel tasks verify text-transformation:recipe-0-123
    """
    from flywheel.tasks.catalog import environment_name, environment_of

    tasks = load().tasks
    (task,) = chosen_tasks(tasks, (task_id,))
    run = environment_of(environment_name(task_id), tasks).run(task)
    said = [path.read_text(encoding="utf-8") for path in answers]
    for number in count(1):
        observation = run.step(said[number - 1] if said else run.known_answer())
        if observation.feedback and said and not as_json:
            click.echo(observation.feedback)
        if observation.over and number < len(said):
            raise click.UsageError(f"the task is over after {number} turns; there are {len(said)} answers")
        if observation.over or number == len(said):
            break
    verification = run.verify()
    if as_json:
        print_json(_verdict(verification))
    else:
        _print_verification(verification)
    if not verification.passed:
        click.get_current_context().exit(FAILED)


def agent_of(settings: "Settings", agent_id: str) -> "Agent":
    """The agent of an id: the reference agent, or one of the registry.

    Raises:
        ConfigurationError: the registry has none of this id.
        NotRunningError: the registry is needed, and no services run.
    """
    if agent_id == REFERENCE:
        from flywheel.arbiter.agents.reference import ReferenceAgent

        return ReferenceAgent()
    from flywheel.arbiter.agents.build import AgentFactory
    from flywheel.arbiter.registry import AgentRegistry
    from flywheel.cli.connection import connected, engine_of
    from flywheel.cli.tasks import model_resolver

    running = connected(settings)
    with engine_of(running) as engine:
        profile = AgentRegistry(engine).get(agent_id)
    return AgentFactory(running, resolve_model=model_resolver(running))(profile)


def _show_sources(tasks: "TasksSettings", *, as_json: bool) -> None:
    from flywheel.tasks.catalog import environment_names, source_names

    routed = source_names(tasks)
    rows = [{"source": name, "routed": name in routed} for name in environment_names()]
    if as_json:
        print_json(rows)
        return
    print_table(("source", "routed"), [(row["source"], "yes" if row["routed"] else "no") for row in rows])


def _done(episode: "Episode") -> bool:
    return episode.failure is None and episode.verification is not None and episode.verification.passed


def _reason(episode: "Episode") -> str:
    if episode.verification is None:
        return f"the environment broke: {episode.broken}"
    return episode.failure or episode.verification.reason


def _show_episodes(episodes: "Sequence[Episode]", *, transcript: bool, as_json: bool) -> None:
    if as_json:
        print_json([_report(episode, transcript=transcript) for episode in episodes])
        return
    for episode in episodes if transcript else ():
        click.echo(f"{episode.task.id}")
        for message in episode.transcript:
            click.echo(f"\n[{message.role}]\n{message.content}")
        click.echo()
    print_table(
        ("task", "done", "turns", "calls", "tokens", "why"),
        [
            (
                episode.task.id,
                "yes" if _done(episode) else "no",
                len(episode.turns),
                len(episode.calls),
                episode.tokens_used,
                _reason(episode),
            )
            for episode in episodes
        ],
    )
    click.echo(f"{sum(map(_done, episodes))} of {len(episodes)} tasks done")


def _report(episode: "Episode", *, transcript: bool) -> dict[str, Any]:
    said = [{"role": message.role, "content": message.content} for message in episode.transcript]
    return {
        "task": episode.task.id,
        "done": _done(episode),
        "turns": len(episode.turns),
        "calls": len(episode.calls),
        "tokens": episode.tokens_used,
        "reason": _reason(episode),
        "verification": None if episode.verification is None else _verdict(episode.verification),
        **({"transcript": said} if transcript else {}),
    }


def _verdict(verification: "Verification") -> dict[str, Any]:
    return {
        "passed": verification.passed,
        "task": verification.task,
        "reason": verification.reason,
        "checks": {check.name: check.score for check in verification.checks},
        "evidence": list(verification.evidence),
    }


def _print_verification(verification: "Verification") -> None:
    click.echo(f"{'passed' if verification.passed else 'failed'}: {verification.reason}")
    for line in verification.evidence:
        click.echo(f"  {line}")
