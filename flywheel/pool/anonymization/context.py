"""What the text around a value gives away: one automaton looks for what may, and what it finds is read closely.

A text without a trigger costs one look.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from flywheel.pool.anonymization import assignments, contacts, openings, paths, tables
from flywheel.pool.anonymization.checks import Place
from flywheel.pool.anonymization.detectors import Span, options

Finder = Callable[[str, Sequence[Place]], Iterator[tuple[Place, str]]]
"""Given a text and where its triggers are: places of values and their types."""
FINDERS: tuple[tuple[str, Finder, str], ...] = (
    (openings.TRIGGER, openings.find_openings, "opens something"),
    (paths.SHARES, paths.find_shares, "share"),
    (contacts.TRIGGER, contacts.find_fields, "field"),
    (assignments.TRIGGER, assignments.find_assigned, "name before it"),
)
"""Triggers (in what google-re2 and ``re`` agree on; case does not matter), what reads on from there, and the reason."""


def find_in_context(text: str) -> Iterator[Span]:
    """Values in tables, commands, assignments, headers, links, contacts and forms."""
    cells, others, kinds = automata()
    data = text.encode("ascii", "replace")  # a byte for each character
    has_rows = text.count("\n") > 2 * text.count("\0")  # a header has a line below; texts are joined by two breaks
    if has_rows and (headers := [hit.span() for hit in cells.finditer(data)]):
        yield from (Span(*place, kind, "column of a table") for place, kind in tables.find_in_tables(text, headers))
    hits = list(others.finditer(data))
    for pattern, finder, reason in kinds if hits else ():
        triggers = [hit.span() for hit in hits if pattern.match(hit.group())]
        yield from (Span(*place, kind, reason) for place, kind in finder(text, triggers))


@cache
def automata() -> tuple[Any, Any, tuple[tuple[re.Pattern[bytes], Finder, str], ...]]:
    """Headers of tables, all other triggers, and each of these by itself.

    Together they would take quadratic time: a cell may go on until its line ends, which would be read for each trigger.
    """
    import re2

    chosen = options()
    chosen.case_sensitive = False
    others = "|".join(f"(?:{trigger})" for trigger, *_ in FINDERS)
    each = tuple((re.compile(trigger.encode(), re.IGNORECASE), finder, reason) for trigger, finder, reason in FINDERS)
    return re2.compile(tables.TRIGGER, chosen), re2.compile(others, chosen), each
