"""The figures of a finished loop: as JSON for programs, as tables for people."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flywheel.reports.candidate import TITLES

DECODINGS = ("greedy", "sampled")


class Score(Struct, frozen=True, kw_only=True, rename="camel"):
    """How one model answered the held-out tasks: share of exact answers with its 95 % interval, mean reward."""

    exact: float
    low: float
    high: float
    reward: float
    tasks: int


class ModelScores(Struct, frozen=True, kw_only=True, rename="camel"):
    """One model, decoded greedily and sampled at temperature 1."""

    greedy: Score
    sampled: Score


class Difference(Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """What one model answers better than another, paired by task: a mean with its 95 % interval."""

    source: str
    target: str
    mode: str
    figure: str
    value: float
    low: float
    high: float


class Candidate(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of the trained model."""

    registered: bool
    version: int | None
    reason: str


class AgentShare(Struct, frozen=True, kw_only=True, rename="camel"):
    """One agent's part of the tasks of a label."""

    tasks: int
    share: float
    success_rate: float | None
    mean_quality: float | None


class Traffic(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who got the tasks of a label, and how it went."""

    tasks: int
    success_rate: float | None
    agents: dict[str, AgentShare]


class Routing(Struct, frozen=True, kw_only=True, rename="camel"):
    """Routing before training and after the champion was approved; ``after`` is empty where there is none."""

    before: Traffic
    after: Traffic


class Summary(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that one loop measured. ``models.base`` is the better of the two prompts, the baseline."""

    profile: str
    batch: str
    models: dict[str, ModelScores]
    differences: list[Difference]
    candidate: Candidate
    routing: Routing
    pool: dict[str, int]
    seconds: dict[str, float]
    peak_memory_gi_b: float = msgspec.field(name="peakMemoryGiB")
    links: dict[str, str] = {}


def write_summary(path: Path, summary: Summary) -> None:
    """Write the summary as JSON, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
    part.replace(path)


def print_summary(console: Console, summary: Summary) -> None:
    """The tables and links that end the quick start."""
    console.print()
    console.print(models_table(summary.models))
    for difference in summary.differences:
        if (difference.source, difference.target, difference.figure) == ("sft", "grpo", "reward"):
            console.print(difference_line(difference), soft_wrap=True)
    console.print(verdict_line(summary.candidate), soft_wrap=True)
    console.print(routing_table(summary.routing))
    console.print(pool_line(summary.pool), soft_wrap=True)
    console.print(cost_line(summary.seconds, summary.peak_memory_gi_b), soft_wrap=True)
    for name, url in summary.links.items():
        console.print(f"{name:<18}{url}", soft_wrap=True, highlight=False)


def models_table(models: Mapping[str, ModelScores]) -> Table:
    """Held-out figures, one row a model."""
    table = Table(title="Held-out tasks: exact answers with 95 % interval, and mean reward", title_justify="left")
    table.add_column("model")
    for decoding in ("greedy", "sampled, T = 1"):
        table.add_column(f"{decoding}: exact", justify="right")
        table.add_column("reward", justify="right")
    table.add_column("tasks", justify="right")
    for key, title in TITLES.items():
        if key in models:
            scores = models[key]
            cells = [
                text for score in (scores.greedy, scores.sampled) for text in (interval(score), f"{score.reward:.3f}")
            ]
            table.add_row(title, *cells, str(scores.greedy.tasks))
    return table


def interval(score: Score) -> str:
    """A share of exact answers as people read it."""
    return f"{score.exact:.1%} ({score.low:.1%}–{score.high:.1%})"


def difference_line(difference: Difference) -> str:
    """What a training stage changed, and whether that is more than chance."""
    is_shown = difference.low > 0 or difference.high < 0
    return (
        f"{TITLES[difference.target]} against {TITLES[difference.source]}, {difference.mode} {difference.figure}: "
        f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f}), "
        f"{'more' if is_shown else 'not more'} than chance explains"
    )


def verdict_line(candidate: Candidate) -> str:
    """What became of the model, and why."""
    if candidate.registered:
        return f"[bold green]Candidate: version {candidate.version}.[/] {escape(candidate.reason)}"
    return f"[bold yellow]No candidate was registered.[/] {escape(candidate.reason)}"


def routing_table(routing: Routing) -> Table:
    """Each agent's share of the tasks, and its success, before and after."""
    table = Table(title="Routing", title_justify="left")
    table.add_column("agent")
    for when in ("before", "after"):
        table.add_column(f"{when}: share", justify="right")
        table.add_column("success", justify="right")
    for agent in sorted({*routing.before.agents, *routing.after.agents}):
        table.add_row(
            escape(agent), *share_cells(routing.before.agents.get(agent)), *share_cells(routing.after.agents.get(agent))
        )
    totals = [
        text
        for traffic in (routing.before, routing.after)
        for text in (f"{traffic.tasks} tasks", percent(traffic.success_rate))
    ]
    table.add_section()
    table.add_row("all", *totals)
    return table


def share_cells(agent: AgentShare | None) -> Sequence[str]:
    """Share and success of one agent; dashes where it got no task."""
    return (percent(agent.share), percent(agent.success_rate)) if agent else ("-", "-")


def percent(fraction: float | None) -> str:
    """A fraction as people read it."""
    return "-" if fraction is None else f"{fraction:.1%}"


def pool_line(pool: Mapping[str, int]) -> str:
    """What became of every line."""
    return (
        f"Pool: {pool['lines']:,} lines became {pool['points']:,} points; {pool['quarantined']:,} lines quarantined, "
        f"{pool['duplicates']:,} duplicates, {pool['waiting']:,} waiting for a missing log."
    )


def cost_line(seconds: Mapping[str, float], peak_memory_gib: float) -> str:
    """What it took."""
    stages = ", ".join(f"{stage.replace('_', ' ')} {spent:.0f}" for stage, spent in seconds.items())
    return f"Seconds: {stages}. Peak memory {peak_memory_gib:.1f} GiB."
