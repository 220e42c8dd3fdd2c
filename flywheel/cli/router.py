"""``flywheel router``: how a strategy does on outcomes that are known, and how a policy would have done on a log."""

from pathlib import Path

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table

STRATEGIES = ("thompson", "ucb", "epsilon-greedy", "contextual", "capability-match", "load-balance")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Group)
def router() -> None:
    """Replay routing strategies, and evaluate policies on logs.

    \b
    Examples:
      flywheel router replay --outcomes outcomes.jsonl --strategy thompson --seed 1
      flywheel router evaluate --log points.jsonl --policy agent:gpt-small
    """


@router.command()
@click.option("--outcomes", type=FILE, required=True, help="JSON lines: taskId, taskType, agentId, reward, …")
@click.option("--strategy", type=click.Choice(STRATEGIES), default="thompson", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the tasks' order and of chance.")
@click.option("--half-life", type=click.FloatRange(0, min_open=True), help="Days (tasks, where rows have no `at`).")
@click.option("--quality-per-usd", type=click.FloatRange(0), default=0.0, help="What one US dollar less is worth.")
@click.option("--quality-per-second", type=click.FloatRange(0), default=0.0, help="What one second less is worth.")
@click.option("--plot", metavar="FILE", help="Draw the learning curve: a .png, a .svg, or - for text.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def replay(
    *,
    outcomes: Path,
    strategy: str,
    seed: int,
    half_life: float | None,
    quality_per_usd: float,
    quality_per_second: float,
    plot: str | None,
    as_json: bool,
) -> None:
    """Let a strategy route tasks of which every agent's outcome is known. It sees those of the agents it chooses.

    \b
    Example:
      flywheel router replay --outcomes outcomes.jsonl --strategy contextual --seed 7 --plot curve.svg
    """
    from flywheel.arbiter.routing.objective import Objective
    from flywheel.arbiter.routing.plot import save_curve, text_curve
    from flywheel.arbiter.routing.replay import cases_of, read_outcomes
    from flywheel.arbiter.routing.replay import replay as run

    if plot not in {None, "-"} and not str(plot).endswith((".png", ".svg")):
        raise click.UsageError("--plot takes a .png, a .svg or -")
    objective = Objective(quality_per_usd=quality_per_usd, quality_per_second=quality_per_second)
    cases = cases_of(read_outcomes(outcomes))
    report = run(cases, strategy, seed=seed, half_life=half_life, objective=objective)  # type: ignore[arg-type]
    if plot == "-":
        click.echo(text_curve(report), err=as_json)
    elif plot:
        save_curve(report, Path(plot))
    if as_json:
        print_json(report)
        return
    print_mapping(
        {
            "tasks": report.tasks,
            "mean reward": report.mean_reward,
            "random": report.random,
            f"best single ({report.best_agent})": report.best_single,
            "best per type": report.best_per_type,
            "oracle": report.oracle,
            "last quarter": report.last_quarter.mean_reward,
            "last quarter, best single": report.last_quarter.best_single,
        }
    )
    print_table(("agent", "share"), sorted(report.share.items(), key=lambda item: -item[1]))


@router.command()
@click.option("--log", type=FILE, required=True, help="JSON lines: points of the pool, or taskId, …, propensities.")
@click.option("--policy", required=True, metavar="POLICY", help="uniform, agent:ID, a strategy, or a JSON file.")
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the interval around the estimate.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def evaluate(log: Path, policy: str, confidence: float, as_json: bool) -> None:
    """Estimate how a policy would have done on logged decisions, without running it.

    A policy file is {"TASK TYPE": {"AGENT": probability}}, with * for all other types. Refused where the log says
    nothing about what the policy does.

    \b
    Example:
      flywheel router evaluate --log points.jsonl --policy thompson
    """
    from flywheel.arbiter.routing.off_policy import evaluate_policy, policy_named, read_log

    decisions = read_log(log)
    report = evaluate_policy(decisions, policy_named(policy, decisions), name=policy, confidence=confidence)
    if as_json:
        print_json(report)
        return
    print_mapping(
        {
            "decisions": report.decisions,
            "worth, in decisions of the policy's own": report.effective_decisions,
            "without support": report.unsupported,
            "the log's own mean reward": report.logged,
        }
    )
    estimates = (("IPS", report.ips), ("SNIPS", report.snips), ("DR", report.dr))
    rows = [(name, estimate.value, estimate.low, estimate.high) for name, estimate in estimates]
    print_table(("estimate", "mean reward", "low", "high"), rows)
