"""The regressions of the contextual strategy: kept up outcome by outcome, they are what all outcomes together give."""

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.routing.linear import LinearEvidence

Array = NDArray[np.float64]
RIDGE = 4.0
AGENTS = ("a", "b", "c", "idle")


class Done(Struct, frozen=True):
    """One outcome."""

    agent_id: str
    features: dict[str, float]
    reward: float
    at: float


def some(count: int, names: Sequence[str], *, seed: int) -> list[Done]:
    """Outcomes in no order of their moments; a task has a few of the features."""
    rng = np.random.default_rng(seed)
    return [
        Done(
            str(rng.choice(AGENTS[:3])),
            {"always": 1.0} | {str(name): float(rng.normal()) for name in rng.choice(names, 3, replace=False)},
            float(rng.random()),
            float(rng.uniform(0.0, 30.0)),
        )
        for _ in range(count)
    ]


def by_definition(
    done: Sequence[Done], names: Sequence[str], features: dict[str, float], half_life: float | None
) -> tuple[Array, Array, Array]:
    """Estimates straight from all outcomes: ridge regressions whose prior is that of all agents together."""
    identity, place = np.eye(len(names)), {name: i for i, name in enumerate(names)}

    def vector(of: dict[str, float]) -> Array:
        return np.array([of.get(name, 0.0) for name in names])

    sums = []
    for agent_id in AGENTS:
        own = [one for one in done if one.agent_id == agent_id]
        last = max((one.at for one in own), default=0.0)
        weights = np.array([1.0 if half_life is None else 0.5 ** ((last - one.at) / half_life) for one in own])
        x = np.array([vector(one.features) for one in own]).reshape(-1, len(names))
        rewards = np.array([one.reward for one in own])
        sums.append((x.T * weights @ x, x.T @ (weights * rewards), weights @ rewards**2, weights.sum()))
    precision, moment, squares, weight = (sum(part) for part in zip(*sums, strict=True))
    stated = 0.5 * identity[place["always"]]
    prior = np.linalg.inv(precision + RIDGE * identity) @ (moment + RIDGE * stated)
    noise = (0.5 + squares - 2.0 * prior @ moment + prior @ precision @ prior) / (2.0 + weight)
    inverses = [np.linalg.inv(own + RIDGE * identity) for own, *_ in sums]
    x = vector(features)
    mean = [x @ inverse @ (own[1] + RIDGE * prior) for inverse, own in zip(inverses, sums, strict=True)]
    variance = [noise * x @ inverse @ x for inverse in inverses]
    return np.array(mean), np.sqrt(variance), np.array([own[3] for own in sums])


@pytest.mark.parametrize("half_life", [None, 10.0])
def test_what_is_kept_up_outcome_by_outcome_is_what_all_of_them_give(half_life: float | None) -> None:
    few, more = list("uvwx"), [*"uvwxyz", *(f"embedding:{number}" for number in range(40))]
    # The prior is fitted where a feature is new, and after every eleventh outcome since: also after the last one.
    done = [
        *some(39, few, seed=0),
        Done("a", dict.fromkeys(["always", *more], 0.1), 0.5, 40.0),
        *some(154, more, seed=1),
    ]
    asked = {"always": 1.0, "v": -0.5, "embedding:7": 0.3}
    known = LinearEvidence(half_life=half_life, ridge=RIDGE)
    for one in done:
        known.learn(one.agent_id, one.features, one.reward, at=one.at)
        known.estimate(AGENTS, asked)
    names = list(known.features)
    for features in (asked, {"always": 1.0}, done[-1].features):
        found = known.estimate(AGENTS, features)
        for mine, theirs in zip(found, by_definition(done, names, features, half_life), strict=True):
            assert mine == pytest.approx(theirs, rel=1e-9)


def test_what_was_kept_and_read_again_expects_the_same_of_agents_in_any_order() -> None:
    known = LinearEvidence()
    for one in some(22, list("uvwx"), seed=2):
        known.learn(one.agent_id, one.features, one.reward)
    again = LinearEvidence()
    for agent_id in ("c", "a", "b"):
        again.put(agent_id, tuple(known.features), known.get(agent_id))
    features = {"always": 1.0, "w": 0.4}
    expected = np.array(known.estimate(("a", "b", "c"), features))
    assert np.array(again.estimate(("b", "c", "a"), features)) == pytest.approx(expected[:, [1, 2, 0]], rel=1e-12)
    assert np.array(again.estimate(("c",), features)) == pytest.approx(expected[:, [2]], rel=1e-12)


def test_a_feature_and_an_agent_that_are_new_are_expected_to_be_as_the_rest() -> None:
    known = LinearEvidence()
    for _ in range(200):
        known.learn("old", {"always": 1.0}, 0.8)
    mean, deviation, weight = known.estimate(("old", "new"), {"always": 1.0, "never seen": 0.5})
    assert mean == pytest.approx([0.8, 0.8], abs=0.02)
    assert deviation[1] > 2.0 * deviation[0]
    assert weight.tolist() == [200.0, 0.0]
