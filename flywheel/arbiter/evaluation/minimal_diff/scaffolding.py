"""Scaffolding: what is added around a change rather than to it (SPEC section 8).

It is looked for in code alone: in prose, blank lines and remarks are the text itself.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.minimal_diff.trees import COMMENTS, NAMED_FUNCTIONS

if TYPE_CHECKING:
    import tree_sitter

COMMENT_SHARE, COMMENTS_COST = 0.5, 0.3
NEW_IMPORTS, IMPORTS_COST = 20, 0.2
BLANK_SHARE, BLANK_COST = 0.3, 0.1
EMPTY_COST = 0.4

IMPORTS = frozenset({
    "import_statement", "import_from_statement", "future_import_statement", "import_declaration", "import_spec",
    "use_declaration", "extern_crate_declaration", "preproc_include",
})  # fmt: skip
STATEMENTS = frozenset({"block", "statement_block", "compound_statement", "constructor_body"})
NOTHING = frozenset({"pass", "...", "return", "return;", "pass;"})
STUBS = ("abstractmethod", "overload", "abstractproperty")
INTERFACES = ("Protocol", "ABC", "Interface")


class Facts(Struct):
    """What one piece of code has: rows of comments alone, imports and empty functions by what they are called."""

    rows: int = 0
    comment_rows: set[int] = msgspec.field(default_factory=set)
    imports: Counter[str] = msgspec.field(default_factory=Counter)
    empty_functions: Counter[str] = msgspec.field(default_factory=Counter)


class Added(Struct, frozen=True, kw_only=True):
    """The added lines of all code that a change touches, and what came with them."""

    lines: int
    comments: int
    blanks: int
    imports: int
    empty_functions: tuple[str, ...]


class Scaffold(Struct, frozen=True, kw_only=True):
    """One kind of scaffolding that a change has too much of, what it costs, and the numbers."""

    name: str
    penalty: float
    reason: str


def facts_of(tree: "tree_sitter.Tree", *, path: str) -> Facts:
    """The facts of parsed code."""
    facts = Facts()
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        kind = node.type
        if kind in COMMENTS or _is_docstring(node):
            _take_rows(facts, node)
            continue
        if kind in IMPORTS:
            facts.imports.update(_imported(node))
        if kind in NAMED_FUNCTIONS and _is_empty(node) and not (path.endswith(".pyi") or _is_stub(node)):
            name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            facts.empty_functions[_text(name) if name else "?"] += 1
        stack += node.children
    return facts


def added_of(pieces: Iterable[tuple[Facts, Facts, Sequence[tuple[int, str]]]]) -> Added:
    """What the pieces' added lines come to: each with its facts before and after, and its added lines with their rows.

    What was only moved from one piece to another is not new.
    """
    lines = comments = blanks = 0
    imports: Counter[str] = Counter()
    empty: Counter[str] = Counter()
    old_imports: Counter[str] = Counter()
    for before, after, added in pieces:
        lines += len(added)
        blanks += sum(not text.strip() for _, text in added)
        comments += sum(row in after.comment_rows and bool(text.strip()) for row, text in added)
        imports += after.imports
        old_imports += before.imports
        empty += after.empty_functions - before.empty_functions
    return Added(
        lines=lines,
        comments=comments,
        blanks=blanks,
        imports=(imports - old_imports).total(),
        empty_functions=tuple(sorted(empty.elements())),
    )


def scaffolds(added: Added) -> tuple[Scaffold, ...]:
    """The kinds of scaffolding that there is too much of."""
    found = []
    if added.comments > COMMENT_SHARE * added.lines:
        reason = f"{added.comments:,} of {added.lines:,} added lines of code are comments"
        found.append(Scaffold(name="comments", penalty=COMMENTS_COST, reason=reason))
    if added.imports > NEW_IMPORTS:
        reason = f"{added.imports:,} new imports, more than {NEW_IMPORTS}"
        found.append(Scaffold(name="imports", penalty=IMPORTS_COST, reason=reason))
    if added.blanks > BLANK_SHARE * added.lines:
        reason = f"{added.blanks:,} of {added.lines:,} added lines of code are blank"
        found.append(Scaffold(name="blank_lines", penalty=BLANK_COST, reason=reason))
    if added.empty_functions:
        reason = f"new functions that do nothing: {', '.join(added.empty_functions[:5])}"
        found.append(Scaffold(name="empty_functions", penalty=EMPTY_COST, reason=reason))
    return tuple(found)


def _take_rows(facts: Facts, node: "tree_sitter.Node") -> None:
    """The rows that a comment has for itself: not the first one where code stands before it."""
    (first, _), (last, column) = node.start_point, node.end_point
    previous = node.prev_sibling
    shared = previous is not None and previous.end_point.row == first and previous.type not in COMMENTS
    parent = node.parent
    shared = shared or (previous is None and parent is not None and parent.start_point.row == first and first > 0)
    facts.comment_rows.update(range(first + shared, last + (column > 0)))


def _is_docstring(node: "tree_sitter.Node") -> bool:
    """A statement of Python that is a string alone."""
    return node.type == "expression_statement" and node.named_child_count == 1 and node.children[0].type == "string"


def _imported(node: "tree_sitter.Node") -> list[str]:
    """What an import names; Go's are counted one by one, within their declaration."""
    if node.type == "import_declaration" and any("import_spec" in child.type for child in node.children):
        return []
    module = node.child_by_field_name("module_name")
    names = node.children_by_field_name("name") if node.type.startswith(("import_", "future")) else []
    if node.type == "import_spec" or not names:
        return [" ".join(_text(node).split())]
    return [f"{_text(module) if module else ''} {_text(name)}" for name in names]


def _is_empty(node: "tree_sitter.Node") -> bool:
    """Whether a function has a body, and nothing happens in it."""
    body = node.child_by_field_name("body")
    if body is None or body.type not in STATEMENTS or any(c.type == "field_initializer_list" for c in node.children):
        return False
    parameters = node.child_by_field_name("parameters")
    if parameters and any(child.type == "accessibility_modifier" for p in parameters.children for child in p.children):
        return False
    statements = [one for one in body.named_children if one.type not in COMMENTS and not _is_docstring(one)]
    return all(_text(one).strip() in NOTHING for one in statements)


def _is_stub(node: "tree_sitter.Node") -> bool:
    """Whether others are to fill it: decorated as abstract or overloaded, or in a protocol or abstract class."""
    parent = node.parent
    if parent is not None and parent.type == "decorated_definition":
        if any(word in _text(child) for child in parent.children if child.type == "decorator" for word in STUBS):
            return True
        parent = parent.parent
    owner = parent.parent if parent is not None else None
    bases = owner.child_by_field_name("superclasses") if owner is not None else None
    return bases is not None and any(word in _text(bases) for word in INTERFACES)


def _text(node: "tree_sitter.Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")
