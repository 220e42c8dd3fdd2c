"""The code of one point, renamed: read all of it, decide the names once, write them everywhere."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from flywheel.languages import BY_SUFFIX, Language
from flywheel.pool.anonymization.code.fragments import Found, Offsets, find_code, parses
from flywheel.pool.anonymization.code.names import Names
from flywheel.pool.anonymization.code.pieces import Fragment, Piece
from flywheel.pool.anonymization.code.reading import Code, read
from flywheel.pool.anonymization.code.structure import Edit, structural_edits
from flywheel.pool.anonymization.code.texts import Text, texts_of_places, write_json
from flywheel.pool.anonymization.places import Place

MENTION = re.compile(rb"(?<!`)`([^`\n]{1,200})`(?!`)")
MENTIONED = re.compile(rb"[#@$A-Za-z_][\w$]*(?:(?:\.|::|->|#)[A-Za-z_]\w*)*(?:\([^`\n]*\))?\Z")
WORD = re.compile(rb"#?[A-Za-z_$][\w$]*")
MAX_CODE = 2_000_000  # bytes of one text; more is no code that an agent wrote or read


class Source(Struct):
    """A text with the code that was found in it."""

    text: Text
    data: bytes
    found: Found
    codes: list[tuple[Fragment, Code]]


def rename_code(places: Iterable[Place], *, structure_only: bool = False) -> Counter[str]:
    """Rename what the code in the places declares, in place; prose mentions it in backticks by its new name.

    Args:
        places: of one point: a name has the same replacement in all of them.
        structure_only: whether comments and string literals become placeholders as well.

    Returns:
        How often a name (``CODE_NAME``) and another text of code (``CODE_TEXT``) was replaced.
    """
    texts = texts_of_places(places)
    sources = [source for text in texts if (source := source_of(text))]
    read_unlabelled(sources)
    codes = [code for source in sources for _, code in source.codes]
    replaced: Counter[str] = Counter()
    if not codes:
        return replaced
    names = Names(codes)
    for text, source in reversed(list(zip_sources(texts, sources))):
        if source is not None and not text.changed:
            edits = edits_of(source, names, structure_only=structure_only)
            if edits:
                text.become(edited(source.data, edits).decode("utf-8", "surrogatepass"))
                replaced.update(kind_of(replacement) for _, _, replacement in edits)
        elif text.changed:
            write_json(text)
    return replaced


def zip_sources(texts: list[Text], sources: list[Source]) -> Iterator[tuple[Text, Source | None]]:
    """Each text with what was found in it."""
    by_text = {id(source.text): source for source in sources}
    for text in texts:
        yield text, by_text.get(id(text))


def source_of(text: Text) -> Source | None:
    """The text with its code, and None where there is nothing to look at: JSON's strings are texts themselves."""
    if text.value is not None or not may_matter(text):
        return None
    data = text.text.encode("utf-8", "surrogatepass")
    found = find_code(data, hint=text.hint, certain=text.certain)
    codes = [(fragment, read(fragment.source(data), fragment.language)) for fragment in found.fragments]
    return Source(text, data, found, codes)


def may_matter(text: Text) -> bool:
    """Whether the text may hold code or mention it."""
    return len(text.text) <= MAX_CODE and (
        text.hint is not None or "\n" in text.text or "`" in text.text or "=" in text.text or "(" in text.text
    )


def read_unlabelled(sources: list[Source]) -> None:
    """Read fences that name no language as the point's other code, most of it first, where they parse as that."""
    languages: Counter[str] = Counter()
    by_name: dict[str, Language] = {}
    for source in sources:
        for fragment, _ in source.codes:
            languages[fragment.language.name] += 1
            by_name[fragment.language.name] = fragment.language
    likely = [by_name[name] for name, _ in languages.most_common(2)]
    for source in sources:
        for pieces in source.found.unlabelled:
            content = b"".join(source.data[start:end] for start, end in pieces)
            language = next((one for one in likely if parses(content, one)), None)
            if language is not None:
                source.codes.append((Fragment(language, pieces), read(content, language)))


def edits_of(source: Source, names: Names, *, structure_only: bool) -> list[Edit]:
    """What changes in a text, from left to right, without overlaps: the longer one wins."""
    edits: dict[Piece, bytes] = {}
    for fragment, code in source.codes:
        offsets = Offsets(fragment.pieces)
        for start, end, replacement in code_edits(code, names, structure_only=structure_only):
            within = offsets.within_text(start, end)
            if within is not None:
                edits[within] = replacement
    edits.update(((start, end), replacement) for start, end, replacement in mention_edits(source, names))
    chosen: list[Edit] = []
    for (start, end), replacement in sorted(edits.items(), key=lambda item: (item[0][0], -item[0][1])):
        if (not chosen or start >= chosen[-1][1]) and source.data[start:end] != replacement:
            chosen.append((start, end, replacement))
    return chosen


def code_edits(code: Code, names: Names, *, structure_only: bool) -> Iterator[Edit]:
    """What changes in one fragment."""
    for leaf in code.leaves.values():
        replacement = names.replacement(code, leaf)
        if replacement is not None:
            yield leaf.start, leaf.end, replacement.encode()
    if structure_only:
        yield from structural_edits(code)


def mention_edits(source: Source, names: Names) -> Iterator[Edit]:
    """Names in backticks outside of code: ``userName``, ``cart.userName``, ``calculateTotal(cart)``."""
    if b"`" not in source.data:
        return
    covered = sorted(source.found.covered)
    number = 0
    for span in MENTION.finditer(source.data):
        while number < len(covered) and covered[number][1] <= span.start():
            number += 1
        if number < len(covered) and covered[number][0] < span.end():
            continue
        said = span[1]
        if not MENTIONED.match(said) or said[said.rfind(b".") :].decode("utf-8", "replace").lower() in BY_SUFFIX:
            continue
        for word in WORD.finditer(source.data, span.start(1), span.end(1)):
            replacement = names.mention(word[0].decode("utf-8", "surrogatepass"))
            if replacement is not None:
                yield word.start(), word.end(), replacement.encode()


def edited(data: bytes, edits: list[Edit]) -> bytes:
    """The text with its edits."""
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in edits:
        pieces += [data[position:start], replacement]
        position = end
    return b"".join([*pieces, data[position:]])


def kind_of(replacement: bytes) -> str:
    """What a replacement counts as in the day's report."""
    return "CODE_TEXT" if replacement[:1] in {b"", b"[", b" "} else "CODE_NAME"
