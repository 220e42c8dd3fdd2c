"""Which parts of two trees are the same, moved or changed: equal subtrees first, then what holds them.

In the manner of GumTree (Falleri et al. 2014), but from the top: below matched nodes a longest common subsequence keeps
what stayed in place; what is left is matched with the most similar of its kind. Then equal subtrees that went elsewhere
are found, and from them upwards the changed ones that hold them. Time grows about linearly with the trees' size.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from flywheel.arbiter.evaluation.changed_lines import common_items
from flywheel.arbiter.evaluation.minimal_diff.trees import IDENTIFIERS, Node, same_shape

ALIKE = 0.4
"""Dice's coefficient of two nodes' leaves from which one may have become the other."""
HOLDS = 0.5
"""The same for what holds moved parts: GumTree's threshold."""
TRACEABLE = 5
"""Leaves of a part that is recognized wherever it went; fewer occur anywhere by chance."""
MOST_PAIRS = 2_500
NEAR = 20
STEPS_PER_NODE = 60

Pair = tuple[Node, Node]


class Matching:
    """Matches the nodes of two forests; what it finds stands in the nodes, in ``partner``, ``whole`` and ``moved``."""

    def __init__(self, before: Sequence[Node], after: Sequence[Node]) -> None:
        self._before = before
        self._after = after
        self._open: list[Pair] = []
        self._matched_below = False  # whether nodes may be matched below such as are not
        self._steps = STEPS_PER_NODE * sum(tree.size for tree in (*before, *after))
        self.updates: list[Pair] = []
        """Leaves of one kind that took each other's place."""

    def run(self, roots: Iterable[Pair]) -> None:
        """Match, given trees that are each other's."""
        for one, other in roots:
            self._pair(one, other)
        self._align_open()
        self._matched_below = True
        moved = self._equal_elsewhere()
        self._named_elsewhere()
        self._holders(moved)
        self._neighbours(moved)

    def _pair(self, one: Node, other: Node, *, moved: bool = False) -> None:
        equal = one.identity == other.identity
        if equal and self._matched_below:
            equal = all(node.partner is None for side in (one, other) for node in side.walk())
        one.partner, other.partner = other, one
        one.moved = other.moved = moved
        if equal:
            one.whole = other.whole = True
        elif one.children or other.children:
            self._open.append((one, other))
        else:
            self.updates.append((one, other))

    def _align_open(self) -> None:
        while self._open:
            one, other = self._open.pop()
            old = [child for child in one.children if child.partner is None]
            new = [child for child in other.children if child.partner is None]
            common = common_items([child.identity for child in old], [child.identity for child in new])
            for left, right in common:
                self._pair(old[left], new[right])
            self._match_left(_with_gaps(old, [left for left, _ in common]), _with_gaps(new, [r for _, r in common]))

    def _match_left(self, old: "list[Left]", new: "list[Left]", *, moved: bool = False) -> None:
        """Match what is left of two nodes' children."""
        if not old or not new:
            return
        self._reordered(old, new)
        old, new = _unmatched(old), _unmatched(new)
        self._wrapped(old, new)
        self._wrapped(new, old, swapped=True)
        old, new = _unmatched(old), _unmatched(new)
        self._replaced_leaves(old, new)
        inner = [[left for left in side if left[1].children] for side in (old, new)]
        for (gap, one), (other_gap, other) in self._most_alike(*inner, sole=not moved):
            if one.partner is None and other.partner is None:
                self._pair(one, other, moved=moved or gap != other_gap)

    def _reordered(self, old: "list[Left]", new: "list[Left]") -> None:
        """Equal ones that crossed others."""
        waiting = defaultdict(list)
        for _, other in reversed(new):
            waiting[other.identity].append(other)
        for _, one in old:
            if waiting[one.identity]:
                self._pair(one, waiting[one.identity].pop(), moved=True)

    def _wrapped(self, inner: "list[Left]", outer: "list[Left]", *, swapped: bool = False) -> None:
        """Those that are whole within something new that stands in their place; swapped: they were taken out of it."""
        wanted = {node.identity for _, node in inner}
        found: defaultdict[int, deque[Node]] = defaultdict(deque)
        for _, holder in outer:
            if not self._may_walk(holder):
                return
            for node in holder.walk():
                if node.identity in wanted and node.partner is None:
                    found[node.identity].append(node)
        for _, node in inner:
            twin = _first_untouched(found[node.identity])
            if twin is not None and node.weight and _is_untouched(node):
                self._matched_below = True
                self._pair(*((twin, node) if swapped else (node, twin)), moved=True)

    def _replaced_leaves(self, old: "list[Left]", new: "list[Left]") -> None:
        """Leaves of one kind in the same place, in order."""
        waiting = defaultdict(list)
        for gap, other in reversed(new):
            if not other.children:
                waiting[gap, other.kind].append(other)
        for gap, one in old:
            if not one.children and waiting[gap, one.kind]:
                self._pair(one, waiting[gap, one.kind].pop())

    def _most_alike(self, old: "list[Left]", new: "list[Left]", *, sole: bool) -> "list[tuple[Left, Left]]":
        """Pairs that may be each other, the likeliest first."""
        bags = {id(node): self._bag(node) for _, node in (*old, *new)}
        alone = {
            kind
            for kind in {node.kind for _, node in old}
            if sole and all(sum(node.kind == kind for _, node in side) == 1 for side in (old, new))
        }
        scored = []
        for at, to in _worth_comparing(old, new):
            (gap, one), (other_gap, other) = old[at], new[to]
            likeness = self._likeness(one, other, bags) + (1.0 if one.kind in alone else 0.0)
            if likeness >= ALIKE:
                scored.append((-likeness, gap != other_gap, abs(at - to), at, to))
        return [(old[at], new[to]) for *_, at, to in sorted(scored)]

    def _equal_elsewhere(self) -> list[Pair]:
        """Equal subtrees of some size that went anywhere, the largest first."""
        places: defaultdict[int, deque[Node]] = defaultdict(deque)
        for node in _free(self._after):
            if node.weight >= TRACEABLE:
                places[node.identity].append(node)
        lost = [node for node in _free(self._before) if node.weight >= TRACEABLE and places[node.identity]]
        moved = []
        for node in sorted(lost, key=lambda one: -one.weight):
            first = _first_untouched(places[node.identity]) if _is_untouched(node) else None
            if first is None:
                continue
            near = (one for one in islice(places[node.identity], NEAR) if one.scope.name == node.scope.name)
            twin = next(filter(_is_untouched, near), first)
            self._pair(node, twin, moved=True)
            moved.append((node, twin))
        return moved

    def _named_elsewhere(self) -> None:
        """Declarations that went elsewhere and changed there."""
        places: dict[tuple[str, str], list[Node]] = defaultdict(list)
        for node in _free(self._after):
            if node.name is not None:
                places[node.kind, node.name].append(node)
        for node in list(_free(self._before)) if places else ():
            twins = places.get((node.kind, node.name or ""), ()) if _is_free(node) else ()
            twin = next(filter(_is_free, twins), None)
            if twin is not None and self._dice(node, twin) >= ALIKE:
                self._pair(node, twin, moved=True)
                self._align_open()

    def _holders(self, moved: Iterable[Pair]) -> None:
        """What holds moved parts on both sides is matched where it is alike."""
        for one, other in moved:
            left, right = one.parent, other.parent
            while left and right and left.partner is None and right.partner is None and left.kind == right.kind:
                if not _same_name(left, right) and self._dice(left, right) < HOLDS:
                    break
                self._pair(left, right, moved=True)
                self._align_open()
                left, right = left.parent, right.parent

    def _neighbours(self, moved: Iterable[Pair]) -> None:
        """What stood beside moved parts and is beside them now, though it changed."""
        holders = {(id(one.parent), id(other.parent)): (one.parent, other.parent) for one, other in moved}
        for left, right in holders.values():
            if left and right and left.partner is not right:
                sides = [[(0, child) for child in side.children if child.partner is None] for side in (left, right)]
                self._match_left(*sides, moved=True)
                self._align_open()

    def _likeness(self, one: Node, other: Node, bags: dict[int, Counter[int]]) -> float:
        same = _same_name(one, other) or (self._may_walk(one) and same_shape(one, other))
        return _dice(bags[id(one)], bags[id(other)]) + (1.0 if same else 0.0)

    def _dice(self, one: Node, other: Node) -> float:
        return _dice(self._bag(one), self._bag(other))

    def _bag(self, node: Node) -> Counter[int]:
        """The leaves below; empty where so much was looked at that time would no longer grow linearly."""
        if not self._may_walk(node):
            return Counter()
        return Counter([leaf.identity for leaf in node.walk() if not leaf.children and leaf.weight])

    def _may_walk(self, node: Node) -> bool:
        self._steps -= node.size
        return self._steps > 0


Left = tuple[int, Node]
"""A child that is not matched, and how many matched ones stand before it."""


def kept_weight(tree: Node, *, moved_part: float) -> float:
    """How many leaves' weight of a tree is matched, of moved ones this part."""
    kept, stack = 0.0, [(tree, False)]
    while stack:
        node, moved = stack.pop()
        moved = moved or node.moved
        if node.whole:
            kept += node.weight * (moved_part if moved else 1.0)
        else:
            stack += [(child, moved) for child in node.children]
    return kept


def _with_gaps(children: Sequence[Node], matched: Sequence[int]) -> list[Left]:
    found, taken, gap = [], set(matched), 0
    for at, child in enumerate(children):
        if at in taken:
            gap += 1
        else:
            found.append((gap, child))
    return found


def _worth_comparing(old: list[Left], new: list[Left]) -> Iterator[tuple[int, int]]:
    """Places of pairs of one kind: all of them, of many those that are near and those of one name."""
    few = len(old) * len(new) <= MOST_PAIRS
    named = defaultdict(list)
    for to, (_, other) in enumerate(new):
        if other.name is not None:
            named[other.name].append(to)
    for at, (_, one) in enumerate(old):
        near = range(len(new)) if few else range(max(0, at - NEAR), min(len(new), at + NEAR))
        for to in {*near, *(() if few or one.name is None else named[one.name][:NEAR])}:
            if one.kind == new[to][1].kind:
                yield at, to


def _unmatched(side: list[Left]) -> list[Left]:
    return [left for left in side if left[1].partner is None]


def _free(trees: Iterable[Node]) -> Iterable[Node]:
    """The inner nodes that are matched with nothing, and are not part of one that is matched whole."""
    for tree in trees:
        stack = [tree]
        while stack:
            node = stack.pop()
            if node.whole or not node.children:
                continue
            if node.partner is None:
                yield node
            stack += reversed(node.children)


def _first_untouched(nodes: deque[Node]) -> Node | None:
    """The first of them that can be matched whole; those before it never can again, and go."""
    while nodes and not _is_untouched(nodes[0]):
        nodes.popleft()
    return nodes[0] if nodes else None


def _is_free(node: Node) -> bool:
    """Whether it is neither matched nor part of what is matched whole."""
    if node.partner is not None:
        return False
    parent = node.parent
    while parent is not None and not parent.whole:
        parent = parent.parent
    return parent is None


def _is_untouched(node: Node) -> bool:
    """Whether it is free, and nothing below is matched."""
    return _is_free(node) and all(one.partner is None for one in node.walk())


def _same_name(one: Node, other: Node) -> bool:
    return one.name is not None and one.name == other.name


def _dice(one: Counter[int], other: Counter[int]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def names_of(tree: Node) -> set[str]:
    """All identifiers of a tree."""
    return {node.label for node in tree.walk() if node.kind in IDENTIFIERS}
