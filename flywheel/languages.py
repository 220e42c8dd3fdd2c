"""The languages whose code is read as trees: their grammars, and how they are named."""

import importlib
from functools import cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    import tree_sitter

LanguageName = Literal["python", "javascript", "typescript", "tsx", "java", "go", "rust", "c", "cpp"]


class Language(Struct, frozen=True):
    """One language. ``fences`` are its names behind three backticks, ``leaves`` the node types of its identifiers."""

    name: LanguageName
    grammar: str
    function: str
    suffixes: tuple[str, ...]
    fences: tuple[str, ...]
    leaves: tuple[str, ...]


SCRIPT_LEAVES = (
    "identifier",
    "property_identifier",
    "private_property_identifier",
    "shorthand_property_identifier",
    "shorthand_property_identifier_pattern",
    "statement_identifier",
)
C_LEAVES = ("identifier", "type_identifier", "field_identifier", "statement_identifier")
SCRIPT_TYPES = (*SCRIPT_LEAVES, "type_identifier")

LANGUAGES: tuple[Language, ...] = (
    Language(
        "python", "python", "language",
        (".py", ".pyi", ".pyw"), ("python", "py", "python3", "py3"), ("identifier",),
    ),
    Language(
        "javascript", "javascript", "language",
        (".js", ".mjs", ".cjs", ".jsx"), ("javascript", "js", "jsx", "node", "mjs"), SCRIPT_LEAVES,
    ),
    Language(
        "typescript", "typescript", "language_typescript",
        (".ts", ".mts", ".cts"), ("typescript", "ts"), SCRIPT_TYPES,
    ),
    Language("tsx", "typescript", "language_tsx", (".tsx",), ("tsx",), SCRIPT_TYPES),
    Language("java", "java", "language", (".java",), ("java",), ("identifier", "type_identifier")),
    Language(
        "go", "go", "language", (".go",), ("go", "golang"),
        ("identifier", "type_identifier", "field_identifier", "package_identifier", "label_name"),
    ),
    Language(
        "rust", "rust", "language", (".rs",), ("rust", "rs"),
        ("identifier", "type_identifier", "field_identifier", "shorthand_field_identifier"),
    ),
    Language("c", "c", "language", (".c", ".h"), ("c", "h"), C_LEAVES),
    Language(
        "cpp", "cpp", "language",
        (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".cu"), ("cpp", "c++", "cc", "cxx", "hpp"),
        (*C_LEAVES, "namespace_identifier"),
    ),
)  # fmt: skip
BY_NAME = {language.name: language for language in LANGUAGES}
BY_FENCE = {fence: language for language in LANGUAGES for fence in language.fences}
BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_of_fence(tag: str) -> Language | None:
    """The language that a fence's first word or a configuration names, such as ``ts``; None for any other."""
    return BY_FENCE.get(tag.strip().lower())


def language_of_path(path: str) -> Language | None:
    """The language that the suffix of a file's name says; None for any other."""
    name = path.strip().strip("\"'`")
    return BY_SUFFIX.get(name[name.rfind(".") :].lower()) if "." in name else None


@cache
def grammar(name: LanguageName) -> "tree_sitter.Language":
    """The compiled grammar."""
    import tree_sitter

    language = BY_NAME[name]
    module = importlib.import_module(f"tree_sitter_{language.grammar}")
    return tree_sitter.Language(getattr(module, language.function)())


@cache
def parser(name: LanguageName) -> "tree_sitter.Parser":
    """A parser, kept: it is asked again and again."""
    import tree_sitter

    return tree_sitter.Parser(grammar(name))
