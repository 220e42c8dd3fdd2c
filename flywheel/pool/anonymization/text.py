"""Text in, text out: what is personal or secret becomes a typed placeholder, the same value the same one."""

import json
import posixpath
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from flywheel.pool.anonymization.detectors import Found, detect, detect_each

SHORT = 64  # characters
WORD = 20  # characters: no detector takes so few letters with nothing between them

Place = tuple[Any, Any, str]
"""A list or dictionary, the index or key in it, and the text that is there."""


class Anonymizer:
    """Replaces within one point: ``[EMAIL_ADDRESS_1]`` is the same address wherever the point has it.

    Make a new one for each point, so that no value can be followed from point to point.
    """

    def __init__(self) -> None:
        self.replaced: Counter[str] = Counter()
        self._placeholders: dict[tuple[str, str], str] = {}

    def replace(self, places: Iterable[Place]) -> None:
        """Replace in place, in every text; those that need no closer look are scanned together."""
        looked_at = [place for place in places if len(place[2]) >= WORD or not place[2].isalpha()]
        together = [text for _, _, text in looked_at if not hides(text)]
        found = detect_each(together)
        number = 0
        for container, key, text in looked_at:
            if hides(text):
                clean = self.text(text)
            else:
                clean = self._replaced(text, found[number]) if number in found else text
                number += 1
            if clean is not text:
                container[key] = clean

    def text(self, text: str) -> str:
        """The text without personal data and secrets; JSON in it, whole or a line, is looked into, escapes and all."""
        if len(text) <= SHORT and is_plain(text):
            return text
        if "\\" not in text:
            return self._scan(text)
        whole = self._json(text)
        if whole is not None:
            return whole
        pieces: list[str] = []
        plain: list[str] = []
        for line in text.split("\n"):
            clean = self._json(line)
            if clean is None:
                plain.append(line)
                continue
            pieces += [*self._block(plain), clean]
            plain = []
        return "\n".join([*pieces, *self._block(plain)])

    def value(self, value: Any) -> Any:
        """The same for every string in nested lists, tuples and dictionaries, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            clean: dict[str, Any] = {}
            for key, item in value.items():
                name = self.text(key)
                while name in clean:  # two paths generalize to one name
                    name += "_"
                clean[name] = self.value(item)
            return clean
        return value

    def _block(self, lines: list[str]) -> list[str]:
        """Lines without JSON, scanned together: a key may span them."""
        return [self._scan("\n".join(lines))] if lines else []

    def _json(self, text: str) -> str | None:
        """The text as JSON without what must go, as it was where nothing must; None where it is no JSON."""
        if text[:1] not in {"{", "["}:
            return None
        try:
            decoded = json.loads(text)
        except (ValueError, RecursionError):
            return None
        before = self.replaced.total()
        clean = self.value(decoded)
        if self.replaced.total() == before:
            return text
        dumped = json.dumps(clean, ensure_ascii=False)
        try:
            dumped.encode()
        except UnicodeEncodeError:  # half of a surrogate pair: only an escape can carry it
            return json.dumps(clean)
        return dumped

    def _scan(self, text: str) -> str:
        found = list(detect(text))
        return self._replaced(text, found) if found else text

    def _replaced(self, text: str, values: Sequence[Found]) -> str:
        pieces: list[str] = []
        position = 0
        for found in values:
            value = text[found.start : found.end]
            pieces += [text[position : found.start], self._placeholder(found.type, value)]
            position = found.end
        return "".join([*pieces, text[position:]])

    def _placeholder(self, kind: str, value: str) -> str:
        self.replaced[kind] += 1
        if kind == "FILE_PATH":
            return generalized_path(value)
        known = self._placeholders.get((kind, value))
        if known is None:
            number = 1 + sum(1 for other, _ in self._placeholders if other == kind)
            known = self._placeholders[kind, value] = f"[{kind}_{number}]"
        return known


def hides(text: str) -> bool:
    """Whether the text must be looked at by itself: for escapes, or for a key that would run into the next text."""
    return "\\" in text or "-----" in text


@lru_cache(maxsize=16_384)
def is_plain(text: str) -> bool:
    """Whether nothing in the text is replaced. Names of fields and roles come again in every record: they are kept."""
    return "\\" not in text and not any(detect(text))


def generalized_path(path: str) -> str:
    """``/home/ann/app/user-file.ts`` → ``/[PATH]/[FILE].ts`` (SPEC section 4); the suffix is what training needs."""
    windows = "\\" in path
    name = posixpath.basename(path.replace("\\", "/"))
    stem, suffix = posixpath.splitext(name)
    if not name:
        return "/[PATH]/"
    drive = path[:2] if windows else ""
    separator = "\\" if windows else "/"
    return f"{drive}{separator}[PATH]{separator}[FILE]{suffix if stem and len(suffix) <= 8 else ''}"
