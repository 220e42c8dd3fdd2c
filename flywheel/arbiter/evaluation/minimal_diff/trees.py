"""Syntax trees to be compared: what a person would call the code, without its layout.

A leaf is a name, a literal, an operator, a keyword, a comment, or a line of a longer string or comment. Brackets,
commas, quotes and line ends are no part of a tree: they follow from its shape, so code that was only laid out anew is
the same tree. What no grammar reads is a tree of lines.
"""

import re
import textwrap
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flywheel.languages import LANGUAGES, Language, parser

if TYPE_CHECKING:
    import tree_sitter

BRACKETS = frozenset({"(", ")", "[", "]", "{", "}", "${", "{{", "}}"})
PUNCTUATION = BRACKETS | {",", ";", ":", ".", "'", '"', "`", '"""', "'''", "\\", "#", "", "\n"}
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
ENCLOSED = {language.name: ('"""', '"""') if language.name == "python" else ("/*", "*/") for language in LANGUAGES}
"""How long strings and comments begin and end, which a part of a file may be cut off within."""
BRANCH = re.compile(r"\s*?([ \t]*)(?:elif|else|except|finally)\b")
DECLARATIONS = ("definition", "declaration", "_item", "_spec", "_specifier")
WORD = re.compile(r"\w+")


class Node:
    """A node of a tree, and what it is matched with.

    ``identity`` is the same for equal subtrees; ``weight`` is the number of leaves, ``size`` that of nodes. ``whole``:
    everything below is matched as well; ``moved``: it stands elsewhere. ``scope`` is the function that it belongs to,
    else the tree.
    """

    __slots__ = (
        *("kind", "label", "name", "parent", "children", "scope", "weight", "size", "identity"),
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
        self.size = 1
        self.identity = -1
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

    def number(self, tree: Node) -> None:
        """Set identities, and weights and sizes of inner nodes, from the leaves up."""
        numbers = self._numbers
        for node in reversed(list(tree.walk())):
            own: Hashable = (node.kind, node.label)
            if node.children:
                node.weight = sum([child.weight for child in node.children])
                node.size = 1 + sum([child.size for child in node.children])
                own = (node.kind, *[child.identity for child in node.children])
            node.identity = numbers.setdefault(own, len(numbers))


def same_shape(one: Node, other: Node) -> bool:
    """Whether two trees differ in names alone."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if left.identity == right.identity:
            continue
        if left.kind != right.kind or len(left.children) != len(right.children):
            return False
        if not left.children and left.kind not in IDENTIFIERS:
            return False
        pairs += zip(left.children, right.children, strict=True)
    return True


class Parsed(Struct, frozen=True):
    """Code as a grammar reads it.

    Attributes:
        errors: how many places it could not read or had to fill in.
        head: bytes that were put before the code, so that it can be read.
        head_rows: rows of these.
    """

    tree: Any
    source: bytes
    errors: int
    head: int = 0
    head_rows: int = 0


def parsed(text: str, language: Language, *, head: str = "") -> Parsed:
    """The code, read; ``head`` is what may have stood before it."""
    source = (head + text).encode("utf-8", "replace")
    tree = parser(language.name).parse(source)
    return Parsed(tree, source, _errors_in(tree), len(head), head.count("\n"))


def parsed_part(before: str, after: str, language: Language) -> tuple[Parsed, Parsed]:
    """Both sides of a part of a file, read: it begins where its outermost line does.

    It may begin within a long string or comment, which nobody can see where its end stands, or with a branch whose
    beginning is cut off. Both sides are read so where more of them is code then.
    """
    old, new = (textwrap.dedent(side) for side in (before, after))
    start, end = ENCLOSED[language.name]
    heads = ["", start] if end in before + after else [""]
    if language.name == "python" and (branch := BRANCH.match(old)):
        heads += [f"{branch[1]}if _: _\n", f"{branch[1]}try: _\n"]
    readings = [(parsed(old, language, head=head), parsed(new, language, head=head)) for head in heads]
    return max(readings, key=lambda both: (sum(map(_code_leaves, both)), -sum(side.errors for side in both)))


def _code_leaves(code: Parsed) -> int:
    """How many leaves make sense, as code: not in strings and comments, nor where the grammar could read nothing."""
    count, stack = 0, [code.tree.root_node]
    while stack:
        node = stack.pop()
        if node.is_error or node.type in COMMENTS or "string" in node.type or node.end_byte <= code.head:
            continue
        count += not node.child_count
        stack += node.children
    return count


def tree_of_code(code: Parsed) -> Node:
    """The tree without layout, not numbered yet."""
    root = Node("tree", "", None)
    stack: list[tuple[tree_sitter.Node | str, Node]] = [(code.tree.root_node, root)]
    while stack:
        inner, parent = stack.pop()
        if isinstance(inner, str):
            parent.children.append(_leaf("text", inner, parent))
            continue
        if inner.end_byte <= code.head:
            continue
        node = _node(inner, parent)
        if node is None:
            continue
        parent.children.append(node)
        if node.kind not in COMMENTS and inner.child_count:
            stack += [(child, node) for child in reversed(_parts(inner, code.source))]
    return root


def _parts(node: "tree_sitter.Node", source: bytes) -> "list[tree_sitter.Node | str]":
    """The children, and what stands between them that is no node: text around escapes."""
    found: list[tree_sitter.Node | str] = []
    position = node.start_byte
    for child in node.children:
        start = child.start_byte
        if start > position and (text := source[position:start].strip()) and text != b"\\":
            found.append(text.decode("utf-8", "replace"))
        found.append(child)
        position = child.end_byte
    if node.end_byte > position and (text := source[position : node.end_byte].strip()):
        found.append(text.decode("utf-8", "replace"))
    return found


def tree_of_lines(text: str) -> Node:
    """A leaf for each line, without its indentation, that weighs as many words as it has."""
    root = Node("tree", "", None)
    for line in text.split("\n"):
        words = len(WORD.findall(line))
        if words or line.strip():
            root.children.append(Node("line", " ".join(line.split()), root, weight=max(1, words)))
    return root


def _errors_in(tree: "tree_sitter.Tree") -> int:
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
