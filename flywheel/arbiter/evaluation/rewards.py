"""Rewards of single steps, by the formulas of SPEC section 8. None of them pays for length by itself.

A reward per call or per turn that is summed up pays an agent for one more of them, and one that is averaged over turn
numbers is biased, because the policy decides when to stop. So each of these is bounded whatever the number of steps:
shares, sums that stop at what was needed, and a division of one total.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

CALL_SUCCEEDED, CALL_TIMED_OUT = 0.05, -0.1
DIFF_ACCEPTED, DIFF_REJECTED = 1.0, -1.0
RELIABILITY_IMPROVED, FORMAT_VALID = 0.5, 0.1
CONFIGURATION_APPLIED = 1.0


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


def process_reward(*, succeeded: int, timed_out: int, needed: int) -> float:
    """The reward of a trajectory's tool calls, −0.1–0.05, for the part of SPEC that follows later.

    0.05 for a successful call and −0.1 for one that timed out, per call that was needed: neither more calls than those
    earn more, nor do more timeouts than those cost more.

    Args:
        succeeded: calls that went well.
        timed_out: calls without an answer in time.
        needed: calls of the known solution, or the fewest of a group that solved the task; at least 1.
    """
    if needed < 1:
        raise ValueError(f"{needed} calls are needed: a trajectory without tools has no reward for its calls")
    return (CALL_SUCCEEDED * min(succeeded, needed) + CALL_TIMED_OUT * min(timed_out, needed)) / needed


class RecommendationOutcome(Struct, frozen=True, kw_only=True):
    """What became of a recommended change of configuration.

    Attributes:
        decision: of the person it was shown to; None: not decided.
        format_valid: whether it was a valid change at all.
        reliability_improved: whether it was measured to help.
        applied: whether it was put to use.
        reliability_change: as measured, for the process rewards; None: not measured.
    """

    decision: Literal["accepted", "rejected"] | None = None
    format_valid: bool
    reliability_improved: bool = False
    applied: bool = False
    reliability_change: float | None = None


def recommendation_reward(outcome: RecommendationOutcome) -> float:
    """The simple reward: accepted 1, rejected −1, reliability improved 0.5, format valid 0.1, summed."""
    decided = {"accepted": DIFF_ACCEPTED, "rejected": DIFF_REJECTED, None: 0.0}[outcome.decision]
    return decided + RELIABILITY_IMPROVED * outcome.reliability_improved + FORMAT_VALID * outcome.format_valid


def recommendation_process_reward(outcome: RecommendationOutcome) -> float:
    """The later one: 1 where the configuration was applied, and the measured change of reliability as it is."""
    return CONFIGURATION_APPLIED * outcome.applied + (outcome.reliability_change or 0.0)
