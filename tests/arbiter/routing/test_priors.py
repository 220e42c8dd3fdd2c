"""What is expected before anything is known: of an agent's other types, its family, or what is stated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.arbiter.routing.belief import Beliefs
from flywheel.arbiter.routing.evidence import EvidenceTable
from flywheel.arbiter.routing.priors import Prior

HALF_LIFE = 5.0


def taught(**options: object) -> Beliefs:
    """A strong and a weak agent in two types, the second one hard, and nobody yet in the third."""
    known = Beliefs(EvidenceTable(), **options)  # type: ignore[arg-type]
    for number in range(100):
        known.learn("strong", "easy", float(number % 10 < 9))
        known.learn("weak", "easy", float(number % 10 < 6))
        known.learn("strong", "hard", float(number % 10 < 4))
    return known


def mean(known: Beliefs, agent_id: str, task_type: str) -> float:
    position = int(known.positions([agent_id])[0])
    return float(known.of(task_type).mean[position])


def test_a_new_type_starts_from_the_agents_overall_record() -> None:
    known = taught()
    assert mean(known, "strong", "third") > mean(known, "weak", "third") + 0.1


def test_a_type_that_goes_badly_is_expected_to_go_badly_for_who_is_new_to_it() -> None:
    known = taught()
    assert mean(known, "weak", "hard") < mean(known, "strong", "hard") < mean(known, "weak", "easy")


def test_a_new_agent_starts_from_its_family_or_from_what_is_stated() -> None:
    families = {"strong": "f", "weak": "g", "cousin": "f", "stranger": ""}
    known = taught(families=families, prior=Prior(stated={"promised": 0.95}))
    assert mean(known, "cousin", "easy") > mean(known, "stranger", "easy")
    assert mean(known, "promised", "easy") > mean(known, "cousin", "easy")


def test_evidence_outweighs_what_was_stated() -> None:
    known = Beliefs(EvidenceTable(), prior=Prior(stated={"boaster": 0.95}))
    for _ in range(200):
        known.learn("boaster", "easy", 0.0)
        known.learn("other", "easy", 1.0)
    assert mean(known, "boaster", "easy") < 0.1


@given(outcomes=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 60)), min_size=1, max_size=20), order=st.randoms())
@settings(max_examples=50)
def test_aged_sums_are_the_same_in_whatever_order_outcomes_arrive(
    outcomes: list[tuple[float, float]], order: object
) -> None:
    tables = [EvidenceTable(half_life=HALF_LIFE), EvidenceTable(half_life=HALF_LIFE)]
    shuffled = outcomes[:]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    for table, arrived in zip(tables, (outcomes, shuffled), strict=True):
        for reward, at in arrived:
            table.add("a", "t", reward, at=at)
    assert tables[0].sums == pytest.approx(tables[1].sums)
    newest = max(at for _, at in outcomes)
    weights = [2.0 ** (-(newest - at) / HALF_LIFE) for _, at in outcomes]
    assert tables[0].of(newest)[0, 0, 1] == pytest.approx(sum(weights))
    assert tables[0].of(newest + HALF_LIFE)[0, 0, 1] == pytest.approx(sum(weights) / 2)


def test_what_is_believed_step_by_step_is_what_is_believed_of_it_all() -> None:
    """Between fits only the changed agent's row is written; at the fit all are, to the same."""
    known, rng = taught(), np.random.default_rng(0)
    for _ in range(5):
        known.learn("weak", "easy", float(rng.random() < 0.5))
    stepped = known.of("easy").best(known.positions(["strong", "weak"]))
    fresh = Beliefs(known.evidence)
    assert stepped == pytest.approx(fresh.of("easy").best(fresh.positions(["strong", "weak"])), abs=0.02)
