"""Which names of a point's code are its own, and what becomes of them: one replacement a name, wherever it occurs."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from flywheel.languages import LanguageName
from flywheel.pool.anonymization.code.keywords import (
    Parameters,
    ambiguous_names,
    class_parameters,
    own_keywords,
    parameters_of,
)
from flywheel.pool.anonymization.code.reading import Code, Declaration, Kind, Leaf, declarations
from flywheel.pool.anonymization.code.vocabulary import VOCABULARIES, words

PLACEHOLDER = re.compile(r"[#_]*(?:var|func|class|Var|Func|Class)[1-9][0-9]*\Z")
SPECIAL = re.compile(r"__\w*__\Z|_+\Z")
MARKS = re.compile(r"[#_]*")
ROOTS = frozenset({"self", "cls", "this", "Self", "crate", "super"})


class Names:
    """The replacements of one point. ``replacement`` answers for a leaf, ``mention`` for a word of its prose."""

    def __init__(self, codes: Sequence[Code]) -> None:
        self.kept: set[str] = set()
        self.foreign: set[str] = set()
        self.plain: set[str] = set()
        self.members: set[str] = set()
        self.replacements: dict[str, str] = {}
        self._keywords: dict[int, set[int]] = {}
        foreign = foreign_classes(codes)
        declared: list[tuple[LanguageName, Declaration]] = []
        for code in codes:
            around = code.owner_of()
            for leaf, declaration in declarations(code):
                owner = around.get(leaf.start)
                if owner is not None and id(owner) in foreign and stays(declaration):
                    self.kept.add(declaration.name)
                else:
                    declared.append((code.language.name, declaration))
        parameters = parameters_of(codes)
        self._keep(codes, declared, parameters)
        self._license(declared)
        self._keep_shorthands(codes)
        self._number(codes, declared)
        of_classes = class_parameters(codes, parameters)
        for code in codes:
            self._keywords[id(code)] = own_keywords(code, parameters, of_classes)

    def replacement(self, code: Code, leaf: Leaf) -> str | None:
        """What the leaf becomes; None where it stays."""
        found = self.replacements.get(leaf.name)
        if found is None or leaf.name in self.kept:
            return None
        known = words(code.language.name)
        if leaf.start in self._keywords[id(code)]:
            return found
        if leaf.role == "fixed" or leaf.name in known.builtins:
            return None
        if leaf.role in {"member", "shorthand"}:
            licensed = self.plain if leaf.scoped and self._is_own(leaf.root) else self.members
            own = leaf.name in licensed and leaf.name not in known.members
            return found if own and not self._is_foreign(code, leaf) else None
        if leaf.role == "imported" and not self._is_own(leaf.root) and leaf.root in known.builtins:
            return None
        return found if leaf.name in self.plain else None

    def mention(self, word: str) -> str | None:
        """What a name becomes that prose mentions; None where it stays."""
        return None if word in self.kept else self.replacements.get(word)

    def _is_own(self, root: str) -> bool:
        """Whether a chain that begins with this name stays within the point's own code."""
        return root in ROOTS or (root in self.replacements and root not in self.kept)

    def _is_foreign(self, code: Code, leaf: Leaf) -> bool:
        """Whether the member belongs to something imported, or to a builtin."""
        if not leaf.root or self._is_own(leaf.root):
            return False
        return leaf.root in self.foreign or (leaf.direct and leaf.root in words(code.language.name).builtins)

    def _keep(
        self, codes: Sequence[Code], declared: list[tuple[LanguageName, Declaration]], parameters: Parameters
    ) -> None:
        """Names that others gave, and members that are called like those of well-known types."""
        own = {declaration.name for _, declaration in declared if declaration.kind != "var"}
        everything = set().union(*parameters.values())
        for code in codes:
            self.foreign |= code.kept | (code.imported - own)
            self.kept |= ambiguous_names(code, parameters, everything)
        self.kept |= self.foreign
        for language, declaration in declared:
            known = words(language)
            if declaration.member and (declaration.name in known.members or declaration.name in known.builtins):
                self.kept.add(declaration.name)

    def _license(self, declared: list[tuple[LanguageName, Declaration]]) -> None:
        for language, declaration in declared:
            name = declaration.name
            if SPECIAL.match(name) or PLACEHOLDER.match(name):
                self.kept.add(name)
            if name not in words(language).builtins:
                self.plain.add(name)
                if declaration.member:
                    self.members.add(name)

    def _keep_shorthands(self, codes: Sequence[Code]) -> None:
        """``{ total }`` names a key of somebody's object as well: it stays unless it is a member of our own."""
        for code in codes:
            known = words(code.language.name)
            for leaf in code.leaves.values():
                if leaf.role == "shorthand" and (leaf.name not in self.members or leaf.name in known.members):
                    self.kept.add(leaf.name)

    def _number(self, codes: Sequence[Code], declared: list[tuple[LanguageName, Declaration]]) -> None:
        """Give every name its number, in the order of declarations, beside what exists already."""
        taken = {leaf.name.lstrip("#_").lower() for code in codes for leaf in code.leaves.values()}
        exported = {d.name for language, d in declared if language == "go" and d.name[:1].isupper()}
        numbers: Counter[Kind] = Counter()
        for language, declaration in declared:
            name = declaration.name
            if name in self.replacements or name in self.kept or name in words(language).builtins:
                continue
            numbers[declaration.kind] += 1
            while f"{declaration.kind}{numbers[declaration.kind]}" in taken:
                numbers[declaration.kind] += 1
            placeholder = f"{declaration.kind}{numbers[declaration.kind]}"
            marks = MARKS.match(name)
            placeholder = placeholder.capitalize() if name in exported else placeholder
            self.replacements[name] = (marks[0] if marks else "") + placeholder


def stays(declaration: Declaration) -> bool:
    """Whether a foreign supertype may have given the member its name: not if it is private by its spelling."""
    private = declaration.name[:1] in {"_", "#"} and not SPECIAL.match(declaration.name)
    return declaration.overridable and not private


def foreign_classes(codes: Sequence[Code]) -> set[int]:
    """The classes (by ``id``) with a supertype, near or far, that the point does not declare and nobody knows."""
    own = {declaration.name for code in codes for _, declaration in declarations(code) if declaration.kind == "class"}
    derived: dict[str, list[tuple[int, str | None]]] = defaultdict(list)
    foreign: set[int] = set()
    left: list[str] = []
    for code in codes:
        harmless = VOCABULARIES[code.language.name].harmless | words(code.language.name).builtins
        for owner in code.owners:
            for base in owner.bases:
                derived[base].append((id(owner), owner.name))
                if base not in own and base not in harmless:
                    left.append(base)
    while left:
        for number, name in derived.pop(left.pop(), []):
            foreign.add(number)
            if name is not None:
                left.append(name)
    return foreign
