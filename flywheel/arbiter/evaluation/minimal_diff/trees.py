"""Syntax trees to be compared: what a person would call the code, without its layout.

A leaf is a name, a literal, an operator, a keyword, a comment, or a line of a longer string or comment. Brackets, commas,
quotes and line ends are no part of a tree: they follow from its shape, so code that was only laid out anew is the same
tree. What no grammar reads is a tree of lines.
"""

import re
import textwrap
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from flywheel.languages import LANGUAGES, Language, parser

if TYPE_CHECKING:
    import tree_sitter

PUNCTUATION = frozenset(
    {
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ":",
        ".",
        "'",
        '"',
        "`",
        '"""',
        "'''",
        "\\",
        "#",
        "${",
        "{{",
        "}}",
        "",
        "\n",
    }
)
IDENTIFIERS = frozenset(leaf for language in LANGUAGES for leaf in language.leaves)
COMMENTS = frozenset({"comment", "line_comment", "block_comment", "html_comment"})
NAMED_FUNCTIONS = frozenset({
    "function_definition", "function_declaration", "method_definition", "method_declaration", "constructor_declaration",
    "function_item", "generator_function_declaration",
})  # fmt: skip
FUNCTIONS = NAMED_FUNCTIONS | {
    "function_expression", "arrow_function", "func_literal", "lambda", "closure_expression", "lambda_expression",
}  # fmt: skip
WRAPPERS = {"decorated_definition": "definition", "export_statement": "declaration", "template_declaration": None}
DECLARATIONS = ("definition", "declaration", "_item", "_spec", "_specifier")
WORD = re.compile(r"\w+")


class Node:
    """A node of a tree, and what it is matched with.

    ``identity`` is the same for equal subtrees, ``shape`` for those that differ in names alone; ``weight`` is the
    number of leaves. ``whole``: everything below is matched as well; ``moved``: it stands elsewhere. ``scope`` is the
    function that it belongs to, else the tree.
    """

    __slots__ = (
        *("kind", "label", "name", "parent", "children", "scope", "weight", "identity", "shape"),
        *("partner", "whole", "moved"),
    )

    def __init__(self, kind: str, label: str, parent: "Node | None", *, weight: int = 0) -> None:
        self.kind = kind
        self.label = label
        self.name: str | None = None
        self.parent = parent
        self.children: list[Node] = []
        self.scope: Node = parent.scope if parent else self
        self.weight = weight
        self.identity = self.shape = -1
        self.partner: Node | None = None
        self.whole = self.moved = False

    def forget_all(self) -> None:
        """Match nothing of the tree any more."""
        for node in self.walk():
            node.partner = None
            node.whole = node.moved = False

    def walk(self) -> Iterator["Node"]:
        """The node and all below, parents first, in the source's order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children)


class Identities:
    """Gives equal subtrees the same number. Trees can be compared whose numbers come from the same one of these."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._shapes: dict[Hashable, int] = {}

    def number(self, tree: Node) -> None:
        """Set identities, shapes and the weights of inner nodes, from the leaves up."""
        for node in reversed(list(tree.walk())):
            label = node.label
            if node.children:
                node.weight = sum([child.weight for child in node.children])
            own = (node.kind, label, *[child.identity for child in node.children])
            node.identity = self._numbers.setdefault(own, len(self._numbers))
            label = "" if node.kind in IDENTIFIERS else label
            own = (node.kind, label, *[child.shape for child in node.children])
            node.shape = self._shapes.setdefault(own, len(self._shapes))


def parsed(text: str, language: Language, *, fragment: bool = False) -> "tree_sitter.Tree":
    """The grammar's tree; a fragment begins where its outermost line does."""
    return parser(language.name).parse((textwrap.dedent(text) if fragment else text).encode("utf-8", "replace"))


def tree_of_code(tree: "tree_sitter.Tree") -> Node:
    """The tree without layout, not numbered yet."""
    root = Node("tree", "", None)
    stack = [(tree.root_node, root)]
    while stack:
        source, parent = stack.pop()
        node = _node(source, parent)
        if node is None:
            continue
        parent.children.append(node)
        if node.kind not in COMMENTS and source.child_count:
            stack += [(child, node) for child in reversed(source.children)]
    return root


def tree_of_lines(text: str) -> Node:
    """A leaf for each line, without its indentation, that weighs as many words as it has."""
    root = Node("tree", "", None)
    for line in text.split("\n"):
        words = len(WORD.findall(line))
        if words or line.strip():
            root.children.append(Node("line", " ".join(line.split()), root, weight=max(1, words)))
    return root


def errors_in(tree: "tree_sitter.Tree") -> int:
    """How many places the grammar could not read or had to fill in."""
    if not tree.root_node.has_error:
        return 0
    count, stack = 0, [tree.root_node]
    while stack:
        node = stack.pop()
        count += node.is_error or node.is_missing
        stack += [child for child in node.children if child.has_error or child.is_error or child.is_missing]
    return count


def _node(source: "tree_sitter.Node", parent: Node) -> Node | None:
    kind = source.type
    if kind in COMMENTS:
        return _leaf(kind, _text(source), parent)
    if source.child_count:
        node = Node(kind, "", parent)
        if kind in FUNCTIONS:
            node.scope = node
        node.name = _name(source, kind)
        return node
    if kind in PUNCTUATION or source.is_missing:
        return None
    label = _text(source)
    if kind in {"string_start", "string_end"}:
        label = label.rstrip("\"'").lower()
        if not label:
            return None
    return _leaf(kind, label, parent)


def _leaf(kind: str, text: str, parent: Node) -> Node:
    """A leaf, or the lines of a longer string or comment."""
    if "\n" not in text:
        return Node(kind, text.strip() if kind in COMMENTS else text, parent, weight=1)
    node = Node(kind, "", parent)
    node.children = [Node("line", line.strip(), node, weight=1) for line in text.split("\n") if line.strip()]
    return node


def _name(source: "tree_sitter.Node", kind: str) -> str | None:
    """What a declaration declares, where its grammar says so."""
    if kind in WRAPPERS:
        field = WRAPPERS[kind]
        inner = source.child_by_field_name(field) if field else source.named_child(source.named_child_count - 1)
        return _name(inner, inner.type) if inner else None
    if not kind.endswith(DECLARATIONS):
        return None
    named = source.child_by_field_name("name") or source.child_by_field_name("declarator")
    while named and (inner := named.child_by_field_name("declarator")):
        named = inner
    return _text(named) if named else None


def _text(source: "tree_sitter.Node") -> str:
    return (source.text or b"").decode("utf-8", "replace")
