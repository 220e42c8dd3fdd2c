"""The formulas of the minimal-diff reward (SPEC section 8), and nothing else."""

from bisect import bisect_right

LINE_SCORES = ((10, 1.0), (50, 0.8), (100, 0.5), (500, 0.3), (1_000, 0.1))
"""Changed lines and their score; straight lines between them."""
LEAST = 0.1


def line_score(changed_lines: int) -> float:
    """1 up to 10 changed lines, 0.8 at 50, 0.5 at 100, 0.3 at 500, 0.1 from 1,000 on; it falls in between."""
    at = bisect_right(LINE_SCORES, (changed_lines, 2.0))
    if at == 0:
        return 1.0
    if at == len(LINE_SCORES):
        return LINE_SCORES[-1][1]
    (low, high_score), (high, low_score) = LINE_SCORES[at - 1 : at + 1]
    return high_score - (high_score - low_score) * (changed_lines - low) / (high - low)


def base_score(*, similarity: float, lines: float) -> float:
    """0.7 · similarity + 0.3 · line score, 0.1–1."""
    return _clamped(0.7 * similarity + 0.3 * lines)


def multiplier(*, base: float, scaffolding_penalty: float) -> float:
    """base · (1 − 0.5 · scaffolding penalty), 0.1–1."""
    return _clamped(base * (1 - 0.5 * scaffolding_penalty))


def _clamped(value: float) -> float:
    return min(1.0, max(LEAST, value))
