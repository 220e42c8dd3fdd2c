"""Tests of success rates that may be looked at after every outcome: their error rate holds over all looks together.

Each gives an e-value: a number whose expectation is at most 1 where nothing is the matter, whenever one stops to look.
By Ville's inequality it ever reaches 1/α with probability α at most, so that is the threshold, however often one looks.
Rates of successes are mixed over by Krichevsky and Trofimov's Beta(½, ½), which needs no tuning.
"""

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Counts = NDArray[np.int64]


class RateChange(Struct, frozen=True, kw_only=True):
    """How strongly outcomes speak for a changed rate, and where it most likely changed.

    ``log_e`` is the e-value's natural logarithm; ``blocks_before`` is 0 where there was no place for a change.
    """

    log_e: float
    blocks_before: int


def log_e_above(successes: int, tasks: int, rate: float) -> float:
    """Natural logarithm of the e-value for a rate above this one; −∞ where fewer than that succeeded.

    The mixture's likelihood over that of ``rate``. It excludes every lower rate too: those that it does not exclude are
    an interval around the observed share (Robbins 1970; Howard et al. 2021, time-uniform confidence sequences).
    """
    if tasks == 0 or successes <= rate * tasks:
        return -math.inf
    failures = tasks - successes
    return log_mixture(successes, failures) - successes * math.log(rate) - failures * math.log1p(-rate)


def rate_change(successes: Counts, tasks: Counts) -> RateChange:
    """The e-value for a rate that changed between two blocks of outcomes, of which there are so many in each, in order.

    Universal inference (Wasserman, Ramdas and Balakrishnan 2020): a mixture over the block after which the rate
    changed, block k with weight 1/(k (k + 1)), and over the rates before and after, over the largest likelihood that
    one rate gives to all outcomes. No rate need be known, and none is estimated from what it is tested on.
    """
    before, done = np.cumsum(successes), np.cumsum(tasks)
    if len(tasks) < 2:
        return RateChange(log_e=0.0, blocks_before=0)
    all_successes, all_tasks = int(before[-1]), int(done[-1])
    terms = np.array(
        [
            -math.log(k * (k + 1))
            + log_mixture(int(s), int(n - s))
            + log_mixture(int(all_successes - s), int(all_tasks - n - all_successes + s))
            for k, (s, n) in enumerate(zip(before[:-1], done[:-1], strict=True), start=1)
        ]
    )
    largest = float(terms.max())
    mixed = largest + math.log(float(np.exp(terms - largest).sum()))
    return RateChange(log_e=mixed - log_largest(all_successes, all_tasks), blocks_before=int(terms.argmax()) + 1)


def log_mixture(successes: int, failures: int) -> float:
    """Natural logarithm of the likelihood of one order of outcomes, mixed over all rates by Beta(½, ½)."""
    total = math.lgamma(successes + 0.5) + math.lgamma(failures + 0.5) - math.lgamma(successes + failures + 1)
    return total - math.log(math.pi)


def log_largest(successes: int, tasks: int) -> float:
    """Natural logarithm of the largest likelihood that a rate gives to one order of outcomes."""
    return sum(count * math.log(count / tasks) for count in (successes, tasks - successes) if count)
