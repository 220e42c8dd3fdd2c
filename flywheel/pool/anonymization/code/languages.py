"""The languages whose code is renamed: their grammars, how they are named, and the words that are not the code's own.

``queries/*.scm`` say in tree-sitter's query language what a language's code declares and uses; ``words/*.toml`` hold
its keywords and builtins, and the members of its standard library's types.
"""

import importlib
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    import tree_sitter

LanguageName = Literal["python", "javascript", "typescript", "tsx", "java", "go", "rust", "c", "cpp"]
HERE = Path(__file__).parent


class Language(Struct, frozen=True):
    """One language. ``fences`` are its names behind three backticks, ``leaves`` the node types of its identifiers."""

    name: LanguageName
    grammar: str
    function: str
    queries: tuple[str, ...]
    words: str
    suffixes: tuple[str, ...]
    fences: tuple[str, ...]
    leaves: tuple[str, ...]
    harmless: frozenset[str] = frozenset()
    """Foreign types that a class may extend without giving its methods foreign names: theirs are among the words."""


class Words(Struct, frozen=True):
    """Names that are never the code's own: ``builtins`` anywhere, ``members`` as fields and methods."""

    builtins: frozenset[str]
    members: frozenset[str]


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
TYPED = ("javascript", "typescript_only")
PYTHON_BASES = frozenset(
    ["ABC", "Protocol", "Generic", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "Thread"]
)

LANGUAGES: tuple[Language, ...] = (
    Language(
        "python", "python", "language", ("python",), "python",
        (".py", ".pyi", ".pyw"), ("python", "py", "python3", "py3"), ("identifier",), PYTHON_BASES,
    ),
    Language(
        "javascript", "javascript", "language", ("javascript", "javascript_only"), "javascript",
        (".js", ".mjs", ".cjs", ".jsx"), ("javascript", "js", "jsx", "node", "mjs"), SCRIPT_LEAVES,
        frozenset({"EventEmitter", "Component", "PureComponent"}),
    ),
    Language(
        "typescript", "typescript", "language_typescript", TYPED, "javascript",
        (".ts", ".mts", ".cts"), ("typescript", "ts"), SCRIPT_TYPES, frozenset({"EventEmitter"}),
    ),
    Language(
        "tsx", "typescript", "language_tsx", TYPED, "javascript",
        (".tsx",), ("tsx",), SCRIPT_TYPES, frozenset({"EventEmitter", "Component", "PureComponent"}),
    ),
    Language(
        "java", "java", "language", ("java",), "java", (".java",), ("java",), ("identifier", "type_identifier")
    ),
    Language(
        "go", "go", "language", ("go",), "go", (".go",), ("go", "golang"),
        ("identifier", "type_identifier", "field_identifier", "package_identifier", "label_name"),
    ),
    Language(
        "rust", "rust", "language", ("rust",), "rust", (".rs",), ("rust", "rs"),
        ("identifier", "type_identifier", "field_identifier", "shorthand_field_identifier"),
    ),
    Language("c", "c", "language", ("c",), "c", (".c", ".h"), ("c", "h"), C_LEAVES),
    Language(
        "cpp", "cpp", "language", ("c", "cpp_only"), "cpp",
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


@cache
def query(name: LanguageName) -> "tree_sitter.Query":
    """What the language declares and uses."""
    import tree_sitter

    texts = [(HERE / "queries" / f"{file}.scm").read_text(encoding="utf-8") for file in BY_NAME[name].queries]
    return tree_sitter.Query(grammar(name), "\n".join(texts))


@cache
def leaf_query(name: LanguageName) -> "tree_sitter.Query":
    """Every identifier, as ``leaf``."""
    import tree_sitter

    return tree_sitter.Query(grammar(name), f"[{' '.join(f'({leaf})' for leaf in BY_NAME[name].leaves)}] @leaf")


@cache
def words(name: LanguageName) -> Words:
    """The language's words."""
    tables = tomllib.loads((HERE / "words" / f"{BY_NAME[name].words}.toml").read_text(encoding="utf-8"))
    return Words(frozenset(tables["builtins"].split()), frozenset(tables["members"].split()))
