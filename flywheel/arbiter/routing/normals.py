"""Which of several normal draws is the largest, and how likely.

The probability is ∫ φ_i Π_{j≠i} Φ_j, with log Φ and φ/Φ from tables and the integral over where the largest may lie.
The midpoint rule converges exponentially once its step is below the width of what it sums, and the largest of 100 equal
draws is 0.43 of their deviation wide: half of the smallest deviation is step enough. What is left is the error of the
nearest entry, below 0.001 for deviations that differ by up to a factor of 150 (tests hold it against fine quadrature).
Beyond, the step is wider than that: at 300, a newcomer beside agents of 100,000 tasks each, the error is below 0.001
where these are few or unlike each other, and 0.02 where they are 100 equal ones.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WIDEST = 6.0
"""Standard deviations beyond which a normal draw is not looked for."""
STEPS_A_DEVIATION = 2.0
MOST_STEPS = 2_048
"""What one decision may cost: with 100 agents, the deviations so far apart, a millisecond or two."""
MIDPOINTS = np.arange(MOST_STEPS) + 0.5
ENTRIES = 256.0
"""Entries of the tables for each standard deviation."""


def _tables() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """log Φ and φ/Φ from −WIDEST to 2 · WIDEST standard deviations, where the one is 0 and the other nearly.

    Single precision keeps both where they are quick to reach, and rounds by less than the nearest entry does.
    """
    z = np.arange(-WIDEST, 2.0 * WIDEST, 1.0 / ENTRIES)
    log_cumulative = np.array([math.log(0.5 * math.erfc(-value / math.sqrt(2.0))) for value in z])
    ratio = np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - log_cumulative)
    return log_cumulative.astype(np.float32), ratio.astype(np.float32)


LOG_CUMULATIVE, RATIO = _tables()


def best_of_normals(mean: Array, deviation: Array) -> Array:
    """For each normal distribution the probability that its draw is the largest, shape (n,), summing to 1."""
    reach = WIDEST * deviation
    low, highs = (mean - reach).max(), mean + reach
    contenders = (highs > low).nonzero()[0]
    mean, deviation = mean[contenders], deviation[contenders]
    width = float(highs.max() - low)
    steps = int(min(MOST_STEPS, 1.0 + STEPS_A_DEVIATION * width / float(deviation.min())))
    points = low + width / steps * MIDPOINTS[:steps]
    # z in entries of the table: none is before the first, since contenders reach the lowest point.
    scale = ENTRIES / deviation
    z = points[:, None] * scale
    z += (ENTRIES * WIDEST + 0.5) - mean * scale
    entries = z.astype(np.intp)
    rest = np.exp(LOG_CUMULATIVE.take(entries, mode="clip").sum(axis=1))
    chances = np.zeros(len(highs))
    chances[contenders] = rest @ RATIO.take(entries, mode="clip") * scale
    chances /= chances.sum()
    return chances
