"""Structure only: what comments and string literals say becomes a placeholder, line by line."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flywheel.pool.anonymization.code.reading import Code

if TYPE_CHECKING:
    import tree_sitter

Edit = tuple[int, int, bytes]
COMMENT = b"[COMMENT]"
STRING = b"[STRING]"
OPENINGS = (b"///", b"//!", b"/**", b"/*", b"//", b"#")
DELIMITERS = {"string_start", "string_end", "raw_string_delimiter", "(", ")"}
QUOTES = ('"', "'", "`")
CODE_WITHIN = {"interpolation", "template_substitution"}


def structural_edits(code: Code) -> Iterator[Edit]:
    """The edits that leave of comments and strings their marks and lines alone; code within strings stays code."""
    for comment in code.comments:
        start, end = comment_body(code.source[comment.start_byte : comment.end_byte])
        yield from line_edits(code.source, comment.start_byte + start, comment.start_byte + end, b" " + COMMENT)
    for string in code.strings:
        if string.start_byte not in code.structural:
            for start, end in literal_parts(code.source, string):
                yield from line_edits(code.source, start, end, STRING)


def comment_body(comment: bytes) -> tuple[int, int]:
    """Where a comment's text begins and ends within it."""
    opening = next((mark for mark in OPENINGS if comment.startswith(mark)), b"")
    if comment == b"/**/":
        return 2, 2
    end = len(comment)
    if opening.startswith(b"/*") and comment.endswith(b"*/"):
        end -= 2
    elif opening != b"/*":
        end = len(comment.rstrip(b"\r\n"))
    return min(len(opening), end), end


def line_edits(source: bytes, start: int, end: int, placeholder: bytes) -> Iterator[Edit]:
    """The text becomes the placeholder in its first line and nothing in the others: lines keep their numbers."""
    position = start
    for number, line in enumerate(source[start:end].split(b"\n")):
        ending = len(line) - len(line.rstrip(b"\r"))
        if line[: len(line) - ending] or (number == 0 and b"\n" in source[start:end]):
            yield position, position + len(line) - ending, placeholder if number == 0 else b""
        position += len(line) + 1


def literal_parts(source: bytes, string: "tree_sitter.Node") -> Iterator[tuple[int, int]]:
    """The runs of a string's characters between its quotes and the code within it."""
    if not string.child_count or string.type in {"regex_pattern", "system_lib_string"}:
        yield from bare_literal(source, string)
        return
    position: int | None = None
    for child in string.children:
        quotes = not child.is_named and any(quote in child.type for quote in QUOTES)
        if quotes or child.type in DELIMITERS or child.type in CODE_WITHIN or child.end_byte == child.start_byte:
            if position is not None and child.start_byte > position:
                yield position, child.start_byte
            position = child.end_byte
        elif position is None:  # a prefix with its quotes
            position = child.start_byte if child.is_named else child.end_byte
    if position is not None and position < string.children[-1].end_byte:
        yield position, string.children[-1].end_byte


def bare_literal(source: bytes, string: "tree_sitter.Node") -> Iterator[tuple[int, int]]:
    """A literal that the grammar does not take apart: what is between its marks."""
    text = source[string.start_byte : string.end_byte]
    marks = 0 if string.type == "regex_pattern" else 1
    if len(text) > 2 * marks:
        yield string.start_byte + marks, string.end_byte - marks
