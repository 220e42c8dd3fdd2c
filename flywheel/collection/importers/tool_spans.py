"""Calls of tools that a trace shows as spans of their own: they say how each call went and how long it took."""

from collections.abc import Sequence

from msgspec import Struct

from flywheel.collection.importers.interface import ToolTally


class ToolSpan(Struct, frozen=True, kw_only=True):
    """One call. ``after_ms`` is from the start of the run to that of the call; None where a time is not known."""

    name: str
    failed: bool
    after_ms: float | None = None
    took_ms: float | None = None


def tallied(spans: Sequence[ToolSpan]) -> dict[str, ToolTally]:
    """The calls by their tools, which come in the order of their first calls."""
    by_name: dict[str, list[ToolSpan]] = {}
    for span in spans:
        by_name.setdefault(span.name, []).append(span)
    return {name: tally_of(calls) for name, calls in by_name.items()}


def tally_of(calls: Sequence[ToolSpan]) -> ToolTally:
    """The calls of one tool; their mean latency where each has one."""
    took_ms = [call.took_ms for call in calls if call.took_ms is not None]
    average_ms = sum(took_ms) / len(took_ms) if len(took_ms) == len(calls) else None
    return ToolTally(calls=len(calls), failures=sum(call.failed for call in calls), average_latency_ms=average_ms)


def first_action_ms(spans: Sequence[ToolSpan], *, latency_ms: float | None) -> float | None:
    """Milliseconds to the first call; None where there is none, or one of them has no time.

    So it is where the first call is behind the end of the run, as of runs so short that their latency is rounded to
    less: the gate ``time`` would turn them away.
    """
    starts = [span.after_ms for span in spans if span.after_ms is not None]
    if not starts or len(starts) < len(spans):
        return None
    first = min(starts)
    return first if latency_ms is None or first <= latency_ms else None
