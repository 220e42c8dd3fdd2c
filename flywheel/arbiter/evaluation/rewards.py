"""Rewards of single steps, by the formulas of SPEC section 8. None of them pays for length by itself.

A reward per call or per turn that is summed up pays an agent for one more of them, and one that is averaged over turn
numbers is biased, because the policy decides when to stop. So each of these is bounded whatever the number of steps:
shares, and a division of one total.
"""

from collections.abc import Sequence


def turn_reward(*, gain: float, format_score: float, progress: float, safety: float, multiplier: float = 1.0) -> float:
    """The reward of one turn, 0–1. ``multiplier`` is the minimal diff's, 0.1–1, of tasks that change code."""
    return (0.4 * gain + 0.3 * format_score + 0.2 * progress + 0.1 * safety) * multiplier


def tool_reward(*, choice: float, format_score: float, utility: float, error_handling: float) -> float:
    """The reward for how tools were used, 0–1; all arguments are shares of the calls."""
    return 0.4 * choice + 0.3 * format_score + 0.2 * utility + 0.1 * error_handling


def turn_credits(total: float, gains: Sequence[float]) -> tuple[float, ...]:
    """A trajectory's reward divided among its turns, by what each added; evenly where none added anything.

    They sum up to the total however many turns there are, so one more turn only takes from the others.

    Args:
        total: the trajectory's reward, any sign.
        gains: the information gain of each turn, 0–1.
    """
    whole = sum(gains)
    if not whole:
        return tuple(total / len(gains) for _ in gains)
    return tuple(total * (gain / whole) for gain in gains)
