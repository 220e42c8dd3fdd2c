"""How long one routing decision takes, beside mabwiser, vowpalwabbit and river in the same run.

``python benchmarks/router.py [--decisions 4000] [--json]``. 100 agents, 20 task types, 0/1 rewards, 20 outcomes of each
agent in each type learned before, by all but vowpalwabbit and river. Each decision is timed by itself and followed by
its outcome, timed as ``learn``; microseconds of processor time, p50 and p99, so that a busy machine does not count:

- plain: ``Router.decide`` with Thompson sampling, propensities of all 100 agents included, which the peers do not have;
- plain, logged: the same with the log's hundred reasons, scores and confidences;
- contextual: the same with the linear strategy on 25 features;
- mabwiser (Thompson sampling per task type; LinTS on the features), vowpalwabbit (contextual bandit with
  exploration over 100 actions), river (Thompson sampling per task type; LinUCB on the features).

What is not installed is reported as absent: ``pip install 'arbiter-flywheel[bench-router]'``.
"""

import argparse
import importlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.belief import Beliefs
from flywheel.arbiter.routing.evidence import Evidence, EvidenceTable
from flywheel.arbiter.routing.linear import ContextualThompson, LinearEvidence
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.task import RoutedTask, features_of

AGENTS = [f"agent-{number}" for number in range(100)]
TYPES = [f"type-{number}" for number in range(20)]
BEFORE = 20
RNG = np.random.default_rng(0)
QUALITY = RNG.uniform(0.2, 0.9, (len(AGENTS), len(TYPES)))
Times = dict[str, float]


def task(number: int) -> RoutedTask:
    """A task of the type that is next."""
    return RoutedTask(task_type=TYPES[number % len(TYPES)], length=int(RNG.integers(10, 9_000)))


def features(of: RoutedTask) -> list[float]:
    """What the peers are given of a task."""
    return [float(of.task_type == name) for name in TYPES] + [1.0, of.length / 9_000]


def reward(agent: int, number: int) -> float:
    """A coin of the agent's quality in the type."""
    return float(RNG.random() < QUALITY[agent, number % len(TYPES)])


def past() -> Iterator[tuple[int, RoutedTask, int]]:
    """So many tasks of each agent in each type: the agent, the task, and its number."""
    for number in range(BEFORE * len(TYPES)):
        for agent in range(len(AGENTS)):
            yield agent, task(number), number


def measure(decide: Callable[[int], int], learn: Callable[[int, int], None], decisions: int) -> Times:
    """Decide and learn in turn; the first tenth is not counted."""
    decided, learned = [], []
    for number in range(decisions):
        began = time.thread_time_ns()
        agent = decide(number)
        middle = time.thread_time_ns()
        learn(number, agent)
        decided.append(middle - began)
        learned.append(time.thread_time_ns() - middle)
    kept, after = np.array(decided[decisions // 10 :]) / 1e3, np.array(learned[decisions // 10 :]) / 1e3
    return {
        "p50_us": float(np.median(kept)),
        "p99_us": float(np.quantile(kept, 0.99)),
        "learn_p50_us": float(np.median(after)),
        "learn_p99_us": float(np.quantile(after, 0.99)),
    }


def beliefs() -> Beliefs:
    """A router's knowledge after so many outcomes of each pair."""
    table = EvidenceTable()
    table.put(
        (agent, kind, Evidence(tasks=BEFORE, weight=BEFORE, quality_sum=BEFORE * q, quality_squares=BEFORE * q))
        for i, agent in enumerate(AGENTS)
        for j, kind in enumerate(TYPES)
        for q in [round(BEFORE * QUALITY[i, j]) / BEFORE]
    )
    return Beliefs(table)


def ours(decisions: int, *, contextual: bool = False, logged: bool = False) -> Times:
    """The router's times."""
    known, linear = beliefs(), LinearEvidence()
    profiles = [AgentProfile(id=agent, kind="reference") for agent in AGENTS]
    tasks = [task(number) for number in range(decisions)]
    if contextual:
        for agent, of, number in past():
            linear.learn(AGENTS[agent], features_of(of), reward(agent, number))
    router = Router(profiles, known, strategy=ContextualThompson(evidence=linear) if contextual else None)
    position = {agent: i for i, agent in enumerate(AGENTS)}
    rng = np.random.default_rng(1)
    for kind in TYPES:
        router.decide(RoutedTask(task_type=kind), rng)

    def decide(number: int) -> int:
        choice = router.decide(tasks[number], rng)
        if logged:
            _ = choice.scored, choice.primary_reason, choice.confidence
        return position[choice.selected]

    def learn(number: int, agent: int) -> None:
        outcome = reward(agent, number)
        known.learn(AGENTS[agent], tasks[number].task_type, outcome)
        if contextual:
            linear.learn(AGENTS[agent], features_of(tasks[number]), outcome)

    return measure(decide, learn, decisions)


def mabwiser(decisions: int, *, contextual: bool) -> Times:
    """The same by mabwiser."""
    from mabwiser.mab import MAB, LearningPolicy

    tasks = [task(number) for number in range(decisions)]
    arms = list(range(len(AGENTS)))
    if contextual:
        bandit = MAB(arms, LearningPolicy.LinTS(alpha=1.0))
        before = list(past())
        bandit.fit([a for a, _, _ in before], [reward(a, n) for a, _, n in before], [features(t) for _, t, _ in before])
        return measure(
            lambda number: bandit.predict([features(tasks[number])]),
            lambda number, arm: bandit.partial_fit([arm], [reward(arm, number)], [features(tasks[number])]),
            decisions,
        )
    bandits = []
    for kind in range(len(TYPES)):
        one = MAB(arms, LearningPolicy.ThompsonSampling())
        one.fit(arms * BEFORE, [reward(arm, kind) for arm in arms * BEFORE])
        bandits.append(one)
    return measure(
        lambda number: bandits[number % len(TYPES)].predict(),
        lambda number, arm: bandits[number % len(TYPES)].partial_fit([arm], [reward(arm, number)]),
        decisions,
    )


def vowpalwabbit(decisions: int, *, contextual: bool) -> Times:
    """The same by vowpalwabbit, which starts knowing nothing."""
    from vowpalwabbit import pyvw

    workspace = pyvw.Workspace("--cb_explore 100 --epsilon 0.1 --quiet")
    lengths = RNG.integers(10, 9_000, decisions)
    chances: dict[int, float] = {}
    rng = np.random.default_rng(2)

    def line(number: int) -> str:
        length = f" length:{lengths[number] / 9_000:.4f}" if contextual else ""
        return f"| {TYPES[number % len(TYPES)]}{length}"

    def decide(number: int) -> int:
        distribution = np.array(workspace.predict(line(number)))
        arm = int(rng.choice(len(distribution), p=distribution / distribution.sum()))
        chances[number] = float(distribution[arm])
        return arm

    def learn(number: int, arm: int) -> None:
        workspace.learn(f"{arm + 1}:{1 - reward(arm, number)}:{chances[number]:.6f} {line(number)}")

    return measure(
        decide,
        lambda number, arm: workspace.learn(
            f"{arm + 1}:{1 - reward(arm, number)}:{chances[number]:.6f} {line(number)}"
        ),
        decisions,
    )


def river(decisions: int, *, contextual: bool) -> Times:
    """The same by river, which starts knowing nothing."""
    from river import bandit, proba

    arms = list(range(len(AGENTS)))
    if contextual:
        policy = bandit.LinUCBDisjoint(alpha=1.0, seed=0)
        tasks = [dict(enumerate(features(task(number)))) for number in range(decisions)]
        return measure(
            lambda number: policy.pull(arms, context=tasks[number]),
            lambda number, arm: policy.update(arm, tasks[number], reward(arm, number)),
            decisions,
        )
    policies = [bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=0) for _ in TYPES]
    return measure(
        lambda number: policies[number % len(TYPES)].pull(arms),
        lambda number, arm: policies[number % len(TYPES)].update(arm, reward(arm, number)),
        decisions,
    )


def run(decisions: int) -> dict[str, Any]:
    """All of it, one after the other."""
    found: dict[str, Any] = {
        "plain": ours(decisions),
        "plain, logged": ours(decisions, logged=True),
        "contextual": ours(decisions, contextual=True),
    }
    for name, peer in (("mabwiser", mabwiser), ("vowpalwabbit", vowpalwabbit), ("river", river)):
        for contextual in (False, True):
            label = f"{name}, {'contextual' if contextual else 'plain'}"
            try:
                importlib.import_module(name)
            except ImportError:
                found[label] = "absent"
                continue
            found[label] = peer(decisions, contextual=contextual)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=4_000)
    parser.add_argument("--json", action="store_true", dest="as_json")
    arguments = parser.parse_args()
    found = run(arguments.decisions)
    if arguments.as_json:
        print(json.dumps({"agents": len(AGENTS), "task_types": len(TYPES), "microseconds": found}, indent=2))
        return
    for name, times in found.items():
        print(f"{name:<26}", times if isinstance(times, str) else {k: round(v, 1) for k, v in times.items()})


if __name__ == "__main__":
    main()
