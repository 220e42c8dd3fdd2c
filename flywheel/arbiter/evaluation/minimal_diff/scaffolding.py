"""Scaffolding: what is added around a change rather than to it (SPEC section 8).

It is looked for in code alone: in prose, blank lines and remarks are the text itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.minimal_diff.trees import COMMENTS, NAMED_FUNCTIONS, Parsed

if TYPE_CHECKING:
    import tree_sitter

COMMENT_SHARE, COMMENTS_COST = 0.5, 0.3
NEW_IMPORTS, IMPORTS_COST = 20, 0.2
BLANK_SHARE, BLANK_COST = 0.3, 0.1
EMPTY_COST = 0.4
FEWEST = 3
"""Comments or blank lines below which their share is not looked at. One blank line among three is no scaffolding, and
if it cost anything, more code around it would raise the reward.
"""

IMPORTS = frozenset({
    "import_statement", "import_from_statement", "future_import_statement", "import_declaration", "import_spec",
    "use_declaration", "extern_crate_declaration", "preproc_include",
})  # fmt: skip
STATEMENTS = frozenset({"block", "statement_block", "compound_statement", "constructor_body"})
NOTHING = frozenset({"pass", "...", "return", "return;", "pass;"})
STUBS = ("abstractmethod", "overload", "abstractproperty")
INTERFACES = ("Protocol", "ABC", "Interface")


class Facts(Struct):
    """What one side of a piece of code has: of the lines that only it has those of code, those of comments alone (both
    without blanks), and how many are blank; its imports, and its empty functions by name.
    """

    code: Counter[str] = msgspec.field(default_factory=Counter)
    comments: Counter[str] = msgspec.field(default_factory=Counter)
    blanks: int = 0
    imports: Counter[str] = msgspec.field(default_factory=Counter)
    empty_functions: Counter[str] = msgspec.field(default_factory=Counter)


class Added(Struct, frozen=True, kw_only=True):
    """What a change adds to its code: lines, and how many of them are comments and blank."""

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


def facts_of(code: Parsed, changed: Mapping[int, str], *, path: str) -> Facts:
    """The facts of parsed code, of which these rows are only on its side."""
    facts = Facts()
    comments: set[int] = set()
    stack = [code.tree.root_node]
    while stack:
        node = stack.pop()
        kind = node.type
        if kind in COMMENTS or _is_docstring(node):
            comments.update(_rows_alone(node))
            continue
        if kind in IMPORTS:
            facts.imports.update(_imported(node))
        if kind in NAMED_FUNCTIONS and _is_empty(node) and not (path.endswith(".pyi") or _is_stub(node)):
            name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            facts.empty_functions[_text(name) if name else "?"] += 1
        stack += node.children
    for row, text in changed.items():
        line = "".join(text.split())
        if line:
            (facts.comments if row + code.head_rows in comments else facts.code)[line] += 1
        else:
            facts.blanks += 1
    return facts


def added_of(pieces: Iterable[tuple[Facts, Facts]]) -> Added:
    """What pieces of code come to, each given before and after.

    A line that was laid out anew or moved is not added; a comment or blank line that replaces another is none more.
    """
    old, new = Facts(), Facts()
    empty: Counter[str] = Counter()
    for before, after in pieces:
        empty += after.empty_functions - before.empty_functions
        for total, facts in ((old, before), (new, after)):
            total.code += facts.code
            total.comments += facts.comments
            total.blanks += facts.blanks
            total.imports += facts.imports
    more_comments = max(0, new.comments.total() - old.comments.total())
    comments = min(more_comments, (new.comments - old.comments).total())
    blanks = max(0, new.blanks - old.blanks)
    return Added(
        lines=(new.code - old.code).total() + comments + blanks,
        comments=comments,
        blanks=blanks,
        imports=(new.imports - old.imports).total(),
        empty_functions=tuple(sorted(empty.elements())),
    )


def scaffolds(added: Added) -> tuple[Scaffold, ...]:
    """The kinds of scaffolding that there is too much of."""
    found = []
    if added.comments >= FEWEST and added.comments > COMMENT_SHARE * added.lines:
        reason = f"{added.comments:,} of {added.lines:,} added lines of code are comments"
        found.append(Scaffold(name="comments", penalty=COMMENTS_COST, reason=reason))
    if added.imports > NEW_IMPORTS:
        reason = f"{added.imports:,} new imports, more than {NEW_IMPORTS}"
        found.append(Scaffold(name="imports", penalty=IMPORTS_COST, reason=reason))
    if added.blanks >= FEWEST and added.blanks > BLANK_SHARE * added.lines:
        reason = f"{added.blanks:,} of {added.lines:,} added lines of code are blank"
        found.append(Scaffold(name="blank_lines", penalty=BLANK_COST, reason=reason))
    if added.empty_functions:
        reason = f"new functions that do nothing: {', '.join(added.empty_functions[:5])}"
        found.append(Scaffold(name="empty_functions", penalty=EMPTY_COST, reason=reason))
    return tuple(found)


def _rows_alone(node: "tree_sitter.Node") -> range:
    """The rows that a comment has for itself: not the first one where code stands before it."""
    first, last = node.start_point.row, node.end_point.row
    before = node.prev_sibling
    shared = before is not None and before.end_point.row == first and before.type not in COMMENTS
    parent = node.parent
    opens = before is None and parent is not None and parent.parent is not None and parent.start_point.row == first
    return range(first + (shared or opens), last + (node.end_point.column > 0))


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
    """Whether a function has a body, and nothing happens in it. One that a diff cuts off has none."""
    body = node.child_by_field_name("body")
    if body is None or body.type not in STATEMENTS or body.start_byte == body.end_byte or body.has_error:
        return False
    if any(child.type == "field_initializer_list" for child in node.children):
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
