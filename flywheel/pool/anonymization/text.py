"""Text in, text out: what is personal or secret becomes a typed placeholder, the same value the same one."""

import json
import posixpath
from collections import Counter
from typing import Any

from flywheel.pool.anonymization.detectors import detect


class Anonymizer:
    """Replaces within one point: ``[EMAIL_ADDRESS_1]`` is the same address wherever the point has it.

    Make a new one for each point, so that no value can be followed from point to point.
    """

    def __init__(self) -> None:
        self.replaced: Counter[str] = Counter()
        self._placeholders: dict[tuple[str, str], str] = {}

    def text(self, text: str) -> str:
        """The text without personal data and secrets; JSON inside it is looked into, escapes and all."""
        if "\\" in text and text[:1] in "{[":
            try:
                decoded = json.loads(text)
            except ValueError:
                return self._scan(text)
            before = self.replaced.total()
            clean = self.value(decoded)
            return json.dumps(clean, ensure_ascii=False) if self.replaced.total() > before else text
        return self._scan(text)

    def value(self, value: Any) -> Any:
        """The same for every string in nested lists, tuples and dictionaries, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def _scan(self, text: str) -> str:
        pieces: list[str] = []
        position = 0
        for found in detect(text):
            value = text[found.start : found.end]
            pieces += [text[position : found.start], self._placeholder(found.type, value)]
            position = found.end
        return text if not pieces else "".join([*pieces, text[position:]])

    def _placeholder(self, kind: str, value: str) -> str:
        self.replaced[kind] += 1
        if kind == "FILE_PATH":
            return generalized_path(value)
        known = self._placeholders.get((kind, value))
        if known is None:
            number = 1 + sum(1 for other, _ in self._placeholders if other == kind)
            known = self._placeholders[kind, value] = f"[{kind}_{number}]"
        return known


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
