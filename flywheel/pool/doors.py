"""The door: a line is decoded once, with types, bounds and required fields judged on the way (SPEC section 3).

msgspec stops at a line's first fault, so an unreadable line has one reason.
"""

import msgspec
from msgspec import Struct

from flywheel.pool.headers import FIRST_DAY
from flywheel.pool.parts import RawLine
from flywheel.records import Execution, Log, decode_log

# How msgspec words what SPEC calls complete and bounds; every other fault is one of types.
MISSING = "missing required field"
UNBELIEVABLE = f"the timestamp lies before {FIRST_DAY} or more than a day after the line was written"
BOUNDS = (
    "Expected `int` >",
    "Expected `float` >",
    "Expected `int` <",
    "Expected `float` <",
    "of length >",
    "of length <",
)


class Unreadable(Struct, frozen=True, kw_only=True):
    """A line that is no log, with the gate it failed."""

    raw: RawLine
    gate: str
    reason: str


def open_line(raw: RawLine) -> Log | Unreadable:
    """The line's log, or why it is none."""
    try:
        log: Log = decode_log(raw.payload)
    except msgspec.ValidationError as error:
        return Unreadable(raw=raw, gate=gate_of(str(error)), reason=str(error))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(raw=raw, gate="types", reason=f"not JSON: {error}")
    if isinstance(log, Execution) and log.lacking:
        # Only the log of an import may be without it, and must say that its source has none.
        return Unreadable(raw=raw, gate="complete", reason=f"Object {MISSING} `{log.lacking[0]}`")
    if raw.task_key is None:
        return Unreadable(raw=raw, gate="time", reason=UNBELIEVABLE)
    return log


def gate_of(reason: str) -> str:
    """Which gate a message of msgspec belongs to."""
    if MISSING in reason:
        return "complete"
    return "bounds" if any(words in reason for words in BOUNDS) else "types"
