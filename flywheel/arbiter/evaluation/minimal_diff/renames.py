"""Consistent renames: names that became others everywhere in a function, which a person reads as one change."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct

from flywheel.arbiter.evaluation.minimal_diff.matching import Pair, names_of
from flywheel.arbiter.evaluation.minimal_diff.trees import IDENTIFIERS, Node

CONSISTENT = 0.8
"""Share of a name's replaced places in a function at which the same new name stands."""


Votes = defaultdict[tuple[Node, str], Counter[str]]
"""The names that stand where an old one stood in a scope, and at how many places."""


class Rename(Struct, frozen=True, order=True):
    """A name that became another one, at so many places."""

    old: str
    new: str
    places: int


def rename(updates: Iterable[Pair]) -> tuple[Rename, ...]:
    """Give names in the trees before their new ones where they were renamed consistently, and say which.

    A rename is consistent within a function (elsewhere within the file) when the old name is gone from it, the new
    one was not in it before, and at least ``CONSISTENT`` of the replaced places agree. At a single place a name was
    replaced, not renamed. Only those places count that have the same kinds of nodes beside them.
    """
    votes: Votes = defaultdict(Counter)
    scopes: dict[Node, Node] = {}
    for one, other in updates:
        if one.kind in IDENTIFIERS and _same_around(one, other):
            votes[one.scope, one.label][other.label] += 1
            scopes.setdefault(one.scope, other.scope)
    return _applied(_consistent(votes, scopes))


def _same_around(one: Node, other: Node) -> bool:
    left, right = (node.parent.children if node.parent else [] for node in (one, other))
    return len(left) == len(right) and all(a.kind == b.kind for a, b in zip(left, right, strict=True))


def _consistent(votes: Votes, scopes: dict[Node, Node]) -> dict[tuple[Node, str], str]:
    """The new name of each name that was renamed, by the scope before; ``scopes`` gives the one after."""
    names = {scope: names_of(scope) for pair in scopes.items() for scope in pair}
    chosen: dict[tuple[Node, str], str] = {}
    taken: set[tuple[Node, str]] = set()
    places: Counter[tuple[str, str]] = Counter()
    for (scope, old), counts in sorted(votes.items(), key=lambda item: (-item[1].total(), item[0][1])):
        new, agreeing = counts.most_common(1)[0]
        complete = old not in names[scopes[scope]] and new not in names[scope]
        if complete and agreeing >= CONSISTENT * counts.total() and (scope, new) not in taken:
            chosen[scope, old] = new
            taken.add((scope, new))
            places[old, new] += agreeing
    return {(scope, old): new for (scope, old), new in chosen.items() if places[old, new] > 1}


def _applied(chosen: dict[tuple[Node, str], str]) -> tuple[Rename, ...]:
    """Relabel, within a function first by what it was found for, else by what holds around it."""
    new_names: dict[Node, str] = {}
    for scope in dict.fromkeys(scope for scope, _ in chosen):
        for leaf in scope.walk():
            if leaf.kind in IDENTIFIERS and (leaf.scope, leaf.label) in chosen:
                new_names[leaf] = chosen[leaf.scope, leaf.label]
            elif leaf.kind in IDENTIFIERS and (scope, leaf.label) in chosen:
                new_names.setdefault(leaf, chosen[scope, leaf.label])
    places = Counter((leaf.label, new) for leaf, new in new_names.items())
    for leaf, new in new_names.items():
        leaf.label = new
    return tuple(sorted(Rename(old, new, count) for (old, new), count in places.items()))
