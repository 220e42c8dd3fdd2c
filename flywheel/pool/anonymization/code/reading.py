"""One piece of code, read: where its identifiers are, which of them it declares, and which are somebody else's."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from flywheel.languages import Language, parser
from flywheel.pool.anonymization.code.vocabulary import leaf_query, query

if TYPE_CHECKING:
    import tree_sitter

Kind = Literal["var", "func", "class"]
Role = Literal["plain", "member", "fixed", "shorthand", "imported"]
Captures = dict[str, list["tree_sitter.Node"]]

MEMBER_TYPES = {"field_identifier", "property_identifier", "private_property_identifier"}
CHAINS = {
    "attribute", "member_expression", "selector_expression", "field_access", "field_expression",
    "scoped_identifier", "scoped_type_identifier", "qualified_identifier", "nested_type_identifier",
}  # fmt: skip
PENDING = 512  # matches that a query keeps open: an expression nested deeper is read in part, and time stays linear
SCOPED = {"scoped_identifier", "scoped_type_identifier", "qualified_identifier"}
SIGNS = re.compile(rb"[^\w\x80-\xff]{500}")
HOPS = 16  # links of a chain that are followed to its root: time stays linear
TOKEN = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|((?:\.|->)?)\s*\b([A-Za-z_]\w*)", re.DOTALL
)
INLINE_ARGUMENT = re.compile(rb"(?<!\{)(?:\{\{)*\{([A-Za-z_]\w*)")
IDENTIFIER = re.compile(r"[#$\w]+\Z")


class Leaf(Struct, gc=False):
    """An identifier: its bytes, its role, and for a member the name that its receiver's chain begins with.

    ``direct``: the chain is that name alone. ``scoped``: the member is of a namespace or module as well as of a type.
    """

    start: int
    end: int
    name: str
    role: Role
    root: str = ""
    direct: bool = False
    scoped: bool = False


class Declaration(Struct, frozen=True, gc=False):
    """A declared name. ``overridable``: it may be the name that a foreign supertype gives."""

    name: str
    kind: Kind
    member: bool
    overridable: bool = False


class Owner(Struct, gc=False):
    """The bytes of a class, its name and its supertypes' names."""

    start: int
    end: int
    name: str | None
    bases: list[str] = msgspec.field(default_factory=list)


class Code(Struct):
    """What was read. ``declared`` is by the leaf's start; ``kept`` and ``imported`` are names that others gave."""

    source: bytes
    language: Language
    tree: "tree_sitter.Tree"
    leaves: dict[int, Leaf] = msgspec.field(default_factory=dict)
    declared: dict[int, Declaration] = msgspec.field(default_factory=dict)
    owners: list[Owner] = msgspec.field(default_factory=list)
    bases: list[tuple[int, str]] = msgspec.field(default_factory=list)
    kept: set[str] = msgspec.field(default_factory=set)
    imported: set[str] = msgspec.field(default_factory=set)
    comments: "list[tree_sitter.Node]" = msgspec.field(default_factory=list)
    strings: "list[tree_sitter.Node]" = msgspec.field(default_factory=list)
    structural: set[int] = msgspec.field(default_factory=set)
    calls: list[Captures] = msgspec.field(default_factory=list)
    """Matches about keyword arguments: Python's alone (``keywords``)."""

    def owner_of(self) -> dict[int, Owner]:
        """The innermost class around each declared leaf and each base, by its start."""
        starts = sorted([*self.declared, *(start for start, _ in self.bases)])
        owners = sorted(self.owners, key=lambda owner: (owner.start, -owner.end))
        around: dict[int, Owner] = {}
        open_: list[Owner] = []
        next_owner = 0
        for start in starts:
            while next_owner < len(owners) and owners[next_owner].start <= start:
                open_.append(owners[next_owner])
                next_owner += 1
            while open_ and open_[-1].end <= start:
                open_.pop()
            if open_:
                around[start] = open_[-1]
        return around


DECLARED: dict[str, tuple[Kind, bool, bool]] = {  # kind, member, overridable
    "var": ("var", False, False),
    "func": ("func", False, False),
    "class": ("class", False, False),
    "var.shorthand": ("var", False, False),
    "member.class": ("class", True, False),
    "field": ("var", True, False),
    "attribute": ("var", True, True),
    "method.own": ("func", True, False),
    "method": ("func", True, True),
    "method.private": ("func", True, False),  # whatever else its name matched
}


def read(source: bytes, language: Language) -> Code:
    """Parse and look: linear in the source, whatever it is."""
    import tree_sitter

    tree = parser(language.name).parse(source if is_readable(source) else b"")
    code = Code(source, language, tree)
    leaves = tree_sitter.QueryCursor(leaf_query(language.name)).captures(tree.root_node)
    for leaf in leaves.get("leaf", ()):
        add_leaf(code, leaf)
    cursor = tree_sitter.QueryCursor(query(language.name), match_limit=PENDING)
    for _, captures in cursor.matches(tree.root_node):
        take(code, captures)
    around = code.owner_of()
    for start, base in code.bases:
        if start in around:
            around[start].bases.append(base)
    return code


def is_readable(source: bytes) -> bool:
    """Whether the source may be code: no code has so many signs in a row, the square of which a query would take."""
    return not SIGNS.search(b"".join(source.split()))


def text_of(node: "tree_sitter.Node") -> str:
    """The node's characters."""
    return (node.text or b"").decode("utf-8", "surrogatepass")


def add_leaf(code: Code, node: "tree_sitter.Node", role: Role | None = None) -> None:
    """One more identifier; a parser that repaired an error may have made up one without characters."""
    name = text_of(node)
    if IDENTIFIER.match(name):
        role = role or ("member" if node.type in MEMBER_TYPES else "plain")
        code.leaves[node.start_byte] = Leaf(node.start_byte, node.end_byte, name, role)


def take(code: Code, captures: Captures) -> None:
    """Enter one match."""
    for name, nodes in captures.items():
        for node in nodes:
            if name in DECLARED:
                declare(code, node, name)
            elif name.startswith("declarator."):
                declare_c(code, node, name.removeprefix("declarator."))
            elif name in TAKERS:
                TAKERS[name](code, node, captures)
    if captures.keys() & {"arguments", "callable", "decorated"}:
        code.calls.append(captures)


def declare(code: Code, node: "tree_sitter.Node", capture: str) -> None:
    """Enter a declaration: a member's wins over a plain one's of the same leaf."""
    leaf = code.leaves.get(node.start_byte)
    if leaf is None or leaf.end != node.end_byte:
        return
    kind, member, overridable = DECLARED[capture]
    known = code.declared.get(leaf.start)
    private = capture == "method.private"
    if known is None or private or (member, overridable) >= (known.member, known.overridable):
        code.declared[leaf.start] = Declaration(leaf.name, kind, member, overridable)
    if member and leaf.role == "plain":
        leaf.role = "member"
    if capture == "var.shorthand":
        leaf.role = "shorthand"


def declare_c(code: Code, node: "tree_sitter.Node", capture: str) -> None:
    """Enter what a declarator of C or C++ declares: ``*table[8]``, ``(*callback)(int)``, ``Order::total()``."""
    kind = capture
    nested = False
    for _ in range(HOPS):
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if node.type == "function_declarator" and not (inner and inner.type == "parenthesized_declarator"):
            kind = {"var": "func", "field": "method.own"}.get(kind, kind)
        if inner is None and node.type in {"parenthesized_declarator", "reference_declarator", "pointer_declarator"}:
            inner = node.named_child(0)
        if inner is None:
            break
        nested = nested or node.type == "qualified_identifier"
        node = inner
    if kind == "foreign":
        code.kept.add(text_of(node))
    elif kind in DECLARED:
        declare(code, node, "method.own" if nested and kind == "func" else kind)


def take_member(code: Code, node: "tree_sitter.Node", captures: Captures) -> None:
    """A member, with the name that its receiver's chain begins with."""
    leaf = code.leaves.get(node.start_byte)
    if leaf is None:
        add_leaf(code, node, "member")
        return
    if leaf.role not in {"shorthand", "imported"}:
        leaf.role = "member"
    if "receiver" not in captures:
        return
    leaf.scoped = node.parent is not None and node.parent.type in SCOPED
    root: tree_sitter.Node | None = captures["receiver"][0]
    for hop in range(HOPS):
        if root is None or root.type not in CHAINS:
            leaf.direct = hop == 0
            break
        root = root.child(0)
    if root is not None and root.child_count == 0:
        leaf.root = text_of(root)


def take_fixed(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """A name that stays here, whatever it is elsewhere."""
    leaf = code.leaves.get(node.start_byte)
    if leaf is not None and leaf.role != "imported":
        leaf.role = "fixed"


def take_foreign(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """A name that stays everywhere."""
    code.kept.add(text_of(node))
    code.declared.pop(node.start_byte, None)


def take_imported(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """A name from elsewhere: it stays, unless other code of the point declares it."""
    code.imported.add(text_of(node))
    leaf = code.leaves.get(node.start_byte)
    if leaf is not None and leaf.role != "shorthand":  # ``use crate::inner::Helper`` is a member as well
        leaf.role = "imported"


def take_package(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """An import path of Go: its last part is the package's name."""
    code.kept.update(part for part in text_of(node).strip('"').split("/")[-2:] if part)


def take_tokens(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """A macro's body, which C's grammar leaves as it is: its identifiers are found by their letters."""
    for match in TOKEN.finditer(code.source, node.start_byte, node.end_byte):
        if match[2]:
            start, end = match.span(2)
            code.leaves[start] = Leaf(start, end, match[2].decode(), "member" if match[1] else "plain")


def take_format(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """Names within a format string of Rust: ``println!("{total}")``."""
    for match in INLINE_ARGUMENT.finditer(code.source, node.start_byte, node.end_byte):
        code.leaves[match.start(1)] = Leaf(match.start(1), match.end(1), match[1].decode(), "plain")


def take_shorthand(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """A key that is its value's name as well."""
    if node.start_byte in code.leaves:
        code.leaves[node.start_byte].role = "shorthand"


def take_owner(code: Code, node: "tree_sitter.Node", captures: Captures) -> None:
    """A class; its name where it has one."""
    names = captures.get("class")
    code.owners.append(Owner(node.start_byte, node.end_byte, text_of(names[0]) if names else None))


def take_plain(code: Code, node: "tree_sitter.Node", _captures: Captures) -> None:
    """A name that is written as a string."""
    if node.start_byte not in code.leaves:
        add_leaf(code, node, "plain")


TAKERS: dict[str, Callable[[Code, "tree_sitter.Node", Captures], None]] = {
    "member": take_member,
    "plain": take_plain,
    "shorthand": take_shorthand,
    "fixed": take_fixed,
    "foreign": take_foreign,
    "imported": take_imported,
    "path": take_imported,
    "package": take_package,
    "tokens": take_tokens,
    "format": take_format,
    "owner": take_owner,
    "base": lambda code, node, _: code.bases.append((node.start_byte, text_of(node))),
    "comment": lambda code, node, _: code.comments.append(node),
    "string": lambda code, node, _: code.strings.append(node),
    "structure": lambda code, node, _: code.structural.add(node.start_byte),
}


def declarations(code: Code) -> Iterator[tuple[Leaf, Declaration]]:
    """Every declared leaf, in the source's order."""
    for start in sorted(code.declared):
        yield code.leaves[start], code.declared[start]
