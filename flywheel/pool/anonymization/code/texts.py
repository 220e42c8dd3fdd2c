"""The texts of a point that may hold code: its strings, and the strings within those that are JSON."""

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from flywheel.languages import (
    BY_NAME,
    Language,
    language_of_fence,
    language_of_path,
)
from flywheel.pool.anonymization.places import Place

LANGUAGE_KEYS = ("language", "lang", "syntax")
PATH_KEYS = (
    "path", "file_path", "filePath", "filepath", "file", "filename", "file_name", "fileName", "target_file",
    "relative_path", "relative_workspace_path", "absolute_path", "uri", "name",
)  # fmt: skip
CODE_KEYS = frozenset(
    [
        "code",
        "source",
        "source_code",
        "sourceCode",
        "content",
        "contents",
        "text",
        "file_text",
        "file_content",
        "fileContent",
        "body",
        "snippet",
        "script",
        "program",
        "old_str",
        "new_str",
        "old_string",
        "new_string",
        "oldString",
        "newString",
        "old_code",
        "new_code",
        "oldText",
        "newText",
        "old_text",
        "new_text",
        "search",
        "replace",
        "replacement",
        "insert_text",
        "before",
        "after",
        "code_edit",
        "original",
        "updated",
        "modified",
        "cell",
        "input",
        "patch",
        "diff",
        "python",
        "javascript",
        "typescript",
        "result",
        "output",
    ]
)
NAMED_IN_TOOLS = (("python", "python"), ("javascript", "javascript"), ("typescript", "typescript"), ("java_", "java"))
MAX_DEPTH = 8  # JSON within JSON within JSON


class Text(Struct):
    """A string and where it is. ``value`` is what it is as JSON; ``certain``: the hint is said of the whole text."""

    container: Any
    key: Any
    text: str
    hint: Language | None = None
    certain: bool = False
    parent: "Text | None" = None
    value: Any = None
    changed: bool = False

    def become(self, text: str) -> None:
        """Write another text in its place."""
        self.container[self.key] = text
        self.changed = True
        if self.parent is not None:
            self.parent.changed = True


def texts_of_places(places: Iterable[Place]) -> list[Text]:
    """Every text, those within JSON after the one that they are in."""
    listed = [place for place in places if not place.is_key and isinstance(place.container[place.key], str)]
    calls = {
        place.container["id"]: place.container
        for place in listed
        if place.key == "arguments" and isinstance(place.container, dict) and isinstance(place.container.get("id"), str)
    }
    texts: list[Text] = []
    for place in listed:
        container, key = place.container, place.key
        one = Text(container, key, place.text)
        if isinstance(container, dict):
            if key == "arguments" and "name" in container:
                one.hint = language_of_tool(str(container["name"]))
            elif key == "content" and container.get("role") == "tool":
                one.hint = language_of_call(calls.get(container.get("toolCallId")))
        texts.append(one)
        look_into(one, texts, depth=0)
    return texts


def language_of_tool(name: str) -> Language | None:
    """The language that a tool's name says: ``execute_python``."""
    lowered = name.lower()
    return next((BY_NAME[language] for word, language in NAMED_IN_TOOLS if word in lowered), None)  # type: ignore[index]


def language_of_call(call: dict[str, Any] | None) -> Language | None:
    """The language of the file that a tool call names."""
    decoded = decoded_json(str(call.get("arguments", ""))) if call else None
    return hint_in(decoded) if isinstance(decoded, dict) else None


def hint_in(value: dict[str, Any]) -> Language | None:
    """The language that a dictionary names, or a file in it."""
    for key in LANGUAGE_KEYS:
        language = language_of_fence(value[key]) if isinstance(value.get(key), str) else None
        if language is not None:
            return language
    for key in PATH_KEYS:
        language = language_of_path(value[key]) if isinstance(value.get(key), str) else None
        if language is not None:
            return language
    return None


def decoded_json(text: str) -> Any:
    """The text as a JSON object or list; None where it is neither."""
    stripped = text.lstrip()
    if stripped[:1] not in {"{", "["}:
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def look_into(text: Text, texts: list[Text], *, depth: int) -> None:
    """Add the strings of a text that is JSON."""
    text.value = decoded_json(text.text) if depth < MAX_DEPTH else None
    left: list[tuple[Any, Language | None, bool]] = [(text.value, text.hint, False)]
    while left:
        value, hint, said = left.pop()
        if isinstance(value, dict):
            named = hint_in(value)
            hint, said = named or hint, named is not None or said
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            if isinstance(item, str):
                is_code = isinstance(value, list) or key in CODE_KEYS
                one = Text(value, key, item, hint if is_code else None, said and is_code, text)
                texts.append(one)
                look_into(one, texts, depth=depth + 1)
            else:
                left.append((item, hint, said))


def write_json(text: Text) -> None:
    """Encode a text anew whose strings changed."""
    dumped = json.dumps(text.value, ensure_ascii=False)
    try:
        dumped.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only an escape can carry it
        dumped = json.dumps(text.value)
    text.become(dumped)
