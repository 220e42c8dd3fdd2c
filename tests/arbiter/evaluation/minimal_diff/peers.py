"""Other measures of how similar code is: two that are in wide use, and the exact one, which is too slow for files."""

import difflib
from collections import Counter
from typing import Any

from apted import APTED, Config

from flywheel.arbiter.evaluation.minimal_diff.trees import Node, parsed, tree_of_code
from flywheel.languages import Language


def difflib_ratio(before: str, after: str) -> float:
    """Ratcliff and Obershelp's similarity of characters, 0–1."""
    return difflib.SequenceMatcher(None, before, after).ratio()


def node_type_jaccard(before: str, after: str, language: Language) -> float:
    """Common node types / all node types, each as often as it occurs, 0–1."""
    one, other = (_types(text, language) for text in (before, after))
    union = (one | other).total()
    return (one & other).total() / union if union else 1.0


def exact_similarity(before: str, after: str, language: Language) -> float:
    """1 − exact tree edit distance / nodes of both trees, 0–1."""
    one, other = (tree_of_code(parsed(text, language)) for text in (before, after))
    distance = float(APTED(one, other, _Nodes()).compute_edit_distance())
    return 1.0 - distance / sum(1 for tree in (one, other) for _ in tree.walk())


class _Nodes(Config):  # type: ignore[misc]
    """How apted reads our trees."""

    def rename(self, node1: Node, node2: Node) -> int:
        return int((node1.kind, node1.label) != (node2.kind, node2.label))

    def children(self, node: Node) -> list[Node]:
        return node.children


def _types(text: str, language: Language) -> Counter[str]:
    types: Counter[str] = Counter()
    stack: list[Any] = [parsed(text, language).tree.root_node]
    while stack:
        node = stack.pop()
        types[node.type] += 1
        stack += node.named_children
    return types
