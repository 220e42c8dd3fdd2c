"""What renaming knows of a language: how its code declares and uses names, and the words that are not the code's own.

``queries/*.scm`` say in tree-sitter's query language what a language's code declares and uses; ``words/*.toml`` hold
its keywords and builtins, and the members of its standard library's types.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from flywheel.languages import BY_NAME, LanguageName, grammar

if TYPE_CHECKING:
    import tree_sitter

HERE = Path(__file__).parent


class Vocabulary(Struct, frozen=True):
    """The files of one language's queries and words."""

    queries: tuple[str, ...]
    words: str
    harmless: frozenset[str] = frozenset()
    """Foreign types that a class may extend without giving its methods foreign names: theirs are among the words."""


class Words(Struct, frozen=True):
    """Names that are never the code's own: ``builtins`` anywhere, ``members`` as fields and methods."""

    builtins: frozenset[str]
    members: frozenset[str]


PYTHON_BASES = frozenset(
    ["ABC", "Protocol", "Generic", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "Thread"]
)
SCRIPT_BASES = frozenset({"EventEmitter", "Component", "PureComponent"})

VOCABULARIES: dict[LanguageName, Vocabulary] = {
    "python": Vocabulary(("python",), "python", PYTHON_BASES),
    "javascript": Vocabulary(("javascript", "javascript_only"), "javascript", SCRIPT_BASES),
    "typescript": Vocabulary(("javascript", "typescript_only"), "javascript", frozenset({"EventEmitter"})),
    "tsx": Vocabulary(("javascript", "typescript_only"), "javascript", SCRIPT_BASES),
    "java": Vocabulary(("java",), "java"),
    "go": Vocabulary(("go",), "go"),
    "rust": Vocabulary(("rust",), "rust"),
    "c": Vocabulary(("c",), "c"),
    "cpp": Vocabulary(("c", "cpp_only"), "cpp"),
}


@cache
def query(name: LanguageName) -> "tree_sitter.Query":
    """What the language declares and uses."""
    import tree_sitter

    texts = [(HERE / "queries" / f"{file}.scm").read_text(encoding="utf-8") for file in VOCABULARIES[name].queries]
    return tree_sitter.Query(grammar(name), "\n".join(texts))


@cache
def leaf_query(name: LanguageName) -> "tree_sitter.Query":
    """Every identifier, as ``leaf``."""
    import tree_sitter

    return tree_sitter.Query(grammar(name), f"[{' '.join(f'({leaf})' for leaf in BY_NAME[name].leaves)}] @leaf")


@cache
def words(name: LanguageName) -> Words:
    """The language's words."""
    tables = tomllib.loads((HERE / "words" / f"{VOCABULARIES[name].words}.toml").read_text(encoding="utf-8"))
    return Words(frozenset(tables["builtins"].split()), frozenset(tables["members"].split()))
