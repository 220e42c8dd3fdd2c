"""What a judge replied, read strictly: one JSON object in the form that was asked for, or a problem in words."""

import json
import re
from typing import Any, Literal

from msgspec import Struct

from flywheel.arbiter.evaluation.judges.opinions import AbstentionKind, Score

FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
LONGEST_QUOTE = 120
LONGEST_REASON = 1_000

Better = Literal["first", "second", "tie"]


class Choice(Struct, frozen=True, kw_only=True):
    """Which of two answers a judge found better."""

    better: Better
    confidence: float
    reason: str


class Unusable(Struct, frozen=True, kw_only=True):
    """Why a reply cannot be used."""

    kind: AbstentionKind
    problem: str


def read_score(text: str) -> Score | Unusable:
    """The reply to a question for a score."""
    found = _object(text)
    if isinstance(found, Unusable):
        return found
    value, confidence, reason = found.get("score"), found.get("confidence"), found.get("reason")
    problem = _not_number("score", value) or _not_number("confidence", confidence) or _not_text("reason", reason)
    problem = problem or _outside("score", value) or _outside("confidence", confidence)
    return problem or Score(value=float(value), confidence=float(confidence), reason=_shortened(reason))  # type: ignore[arg-type]


def read_choice(text: str) -> Choice | Unusable:
    """The reply to a question for the better of two."""
    found = _object(text)
    if isinstance(found, Unusable):
        return found
    better, confidence, reason = found.get("better"), found.get("confidence"), found.get("reason")
    problem = _not_number("confidence", confidence) or _not_text("reason", reason)
    if better not in ("first", "second", "tie"):
        problem = problem or Unusable(kind="unreadable", problem='"better" is neither "first" nor "second" nor "tie"')
    problem = problem or _outside("confidence", confidence)
    return problem or Choice(better=better, confidence=float(confidence), reason=_shortened(reason))  # type: ignore[arg-type]


def _object(text: str) -> dict[str, Any] | Unusable:
    """The one JSON object that the reply is, but for reasoning before it and a fence around it.

    No object is searched for inside other text: it could be one that the judged answer put there.
    """
    thought = THOUGHT.match(text)
    bare = text[thought.end() if thought else 0 :].strip()
    if not bare:
        return Unusable(kind="empty", problem="it is empty")
    fenced = FENCE.fullmatch(bare)
    try:
        found = json.loads(fenced[1] if fenced else bare, object_pairs_hook=_each_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        quote = bare if len(bare) <= LONGEST_QUOTE else f"{bare[:LONGEST_QUOTE]}…"
        return Unusable(kind="unreadable", problem=f"it is not one JSON object ({error}): {quote!r}")
    return found if isinstance(found, dict) else Unusable(kind="unreadable", problem="it is JSON, but no object")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _not_number(name: str, value: object) -> Unusable | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return Unusable(kind="unreadable", problem=f'"{name}" is missing or no number')


def _not_text(name: str, value: object) -> Unusable | None:
    return None if isinstance(value, str) else Unusable(kind="unreadable", problem=f'"{name}" is missing or no text')


def _outside(name: str, value: Any) -> Unusable | None:
    """A score of 85 is not taken for 0.85: it may be on any scale."""
    if 0 <= value <= 1:
        return None
    return Unusable(kind="out-of-range", problem=f'"{name}" is {value}, outside of 0.0 to 1.0')


def _shortened(reason: str) -> str:
    line = " ".join(CONTROL.sub(" ", reason).split())
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}…"
