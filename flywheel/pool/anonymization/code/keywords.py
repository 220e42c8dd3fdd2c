"""Keyword arguments of Python: they are renamed where the callee's parameter is, and nowhere else.

Where it cannot be known whose parameter a keyword names (``callback(total=3)``, ``partial(pay, total=3)``,
``pay(**order)``), the name stays throughout.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flywheel.pool.anonymization.code.reading import Captures, Code, text_of
from flywheel.pool.anonymization.code.vocabulary import words

if TYPE_CHECKING:
    import tree_sitter

CONSTRUCTORS = {"__init__", "__new__", "__call__"}
OWN_CLASS = {"cls", "__class__"}
COPIES = {"replace", "_replace", "partial", "partialmethod"}
HARMLESS_DECORATORS = {
    "property", "staticmethod", "classmethod", "cached_property", "lru_cache", "cache", "wraps", "contextmanager",
    "asynccontextmanager", "abstractmethod", "override", "overload", "setter", "deleter", "final",
}  # fmt: skip


Parameters = dict[str, set[str]]
"""Of every function, method and class, by its name."""


def parameters_of(codes: Sequence[Code]) -> Parameters:
    """The parameters of every function, method and class that the codes declare, by its name."""
    parameters: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, list[str]] = {}
    for code in codes:
        around = code.owner_of()
        bases.update({owner.name: owner.bases for owner in code.owners if owner.name})
        for captures in code.calls:
            if "callable" not in captures:
                continue
            callable_ = captures["callable"][0]
            names = set(parameter_names(captures))
            owner = around.get(callable_.start_byte)
            name = text_of(callable_)
            parameters[name] |= names
            if name in CONSTRUCTORS and owner is not None and owner.name:
                parameters[owner.name] |= names
    for name in bases:
        parameters[name] |= inherited(name, bases, parameters)
    return dict(parameters)


def inherited(name: str, bases: dict[str, list[str]], parameters: dict[str, set[str]]) -> set[str]:
    """The parameters of a class's own supertypes, near and far."""
    found: set[str] = set()
    seen = {name}
    left = list(bases[name])
    while left and len(seen) < 32:
        base = left.pop()
        if base not in seen:
            seen.add(base)
            found |= parameters.get(base, set())
            left += bases.get(base, [])
    return found


def parameter_names(captures: Captures) -> Iterator[str]:
    """The names of a match's parameters: a function's, or the annotated field of a class."""
    yield from (text_of(node) for node in captures.get("parameter", []))
    for parameters in captures.get("parameters", []):
        for child in parameters.named_children:
            node = child.child_by_field_name("name") or (child.named_child(0) if child.named_child_count else child)
            if node is not None and node.type == "identifier":
                yield text_of(node)


class Call:
    """A call with keyword arguments: what is called, and what with."""

    def __init__(self, captures: Captures) -> None:
        function = captures["function"][0]
        last = function.child_by_field_name("attribute") or function
        self.name = text_of(last) if last.type == "identifier" else ""
        self.is_member = last is not function
        self.keywords: list[tree_sitter.Node] = []
        self.positional: list[str] = []
        self.unpacks = False
        for child in captures["arguments"][0].named_children:
            if child.type == "keyword_argument":
                name = child.child_by_field_name("name")
                self.keywords += [name] if name is not None else []
                value = child.child_by_field_name("value")
                self.positional += [text_of(value)] if value is not None and value.type == "identifier" else []
            elif child.type == "dictionary_splat":
                self.unpacks = True
            elif child.type in {"identifier", "attribute"}:
                self.positional.append(text_of(child.child_by_field_name("attribute") or child))


def calls_of(code: Code) -> list[Call]:
    """The code's calls with keyword arguments, each once."""
    found = {captures["arguments"][0].start_byte: captures for captures in code.calls if "arguments" in captures}
    return [Call(captures) for captures in found.values()]


def class_parameters(codes: Sequence[Code], parameters: Parameters) -> set[str]:
    """The parameters of all classes."""
    return set().union(*(parameters.get(owner.name, ()) for code in codes for owner in code.owners if owner.name))


def own_keywords(code: Code, parameters: Parameters, of_classes: set[str]) -> set[int]:
    """Where the code's keyword arguments name parameters of the point's own functions."""
    own: set[int] = set()
    for call in calls_of(code):
        known = of_classes if call.name in OWN_CLASS else parameters.get(call.name, set())
        own.update(node.start_byte for node in call.keywords if text_of(node) in known)
    return own


def ambiguous_names(code: Code, parameters: Parameters, everything: set[str]) -> set[str]:
    """Names of parameters (``everything``) that a caller may spell who is not to be found in the point."""
    builtins = words(code.language.name).builtins
    ambiguous: set[str] = set()
    for call in calls_of(code):
        keywords = {text_of(node) for node in call.keywords}
        if call.name in parameters or call.name in OWN_CLASS:
            ambiguous |= parameters[call.name] if call.unpacks and call.name in parameters else set()
            continue
        declared_here = not call.is_member and call.name not in code.imported and call.name not in builtins
        hands_on = any(name in parameters for name in call.positional)
        if declared_here or hands_on or call.name in COPIES:
            ambiguous |= keywords & everything
    for captures in code.calls:
        if "decorated" in captures and not all(map(is_harmless, captures["decorator"])):
            ambiguous |= set(parameter_names({"parameters": captures["decorated"]})) - {"self", "cls"}
    return ambiguous


def is_harmless(decorator: "tree_sitter.Node") -> bool:
    """Whether the decorator leaves a function's parameters alone."""
    function = decorator.child_by_field_name("function") or decorator
    return text_of(function.child_by_field_name("attribute") or function) in HARMLESS_DECORATORS
