"""Text in, text out: what is personal or secret becomes a typed placeholder, the same value the same one."""

import copy
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.paths import BACKSLASHES, generalized_path, is_windows, named_path
from flywheel.pool.anonymization.places import Place, places_in, rename_keys
from flywheel.pool.anonymization.quoting import JsonText
from flywheel.pool.anonymization.spans import Named, find_each


class Find(Protocol):
    """Finds what is personal or secret in each text of one record."""

    def __call__(
        self, texts: Sequence[str], *, named: Sequence[Named] = (), detection: Detection = DEFAULT
    ) -> list[list[Span]]:
        """See ``flywheel.pool.anonymization.spans.find_each``."""


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
KEY_FOLLOWS = re.compile(r"[^\"'\n]{0,200}+[\"']\s*:")  # a string of JSON goes on to its end and is a key
PLACED = re.compile(r"\[([A-Z][A-Z_]*)_(\d+)\]")


class Anonymizer:
    """Replaces within one point: ``[EMAIL_ADDRESS_1]`` is the same address wherever the point has it.

    Make a new one for each point, so that no value can be followed from point to point. ``find`` and ``detection``
    say what is replaced.
    """

    def __init__(
        self, *, find: Find = find_each, detection: Detection = DEFAULT, keep_file_names: bool = False
    ) -> None:
        self.detection = detection
        self._find = find
        self.replaced: Counter[str] = Counter()
        self._keep_file_names = keep_file_names
        self._placeholders: dict[tuple[str, str], str] = {}
        self._numbers: Counter[str] = Counter()
        self._keys: dict[str, dict[str, str]] = {}

    def replace(self, places: Sequence[Place]) -> None:
        """Replace in place, in every text of a record: what one gives away is found in all."""
        found = self._find(
            [place.text for place in places],
            named=[Named(number, place.type) for number, place in enumerate(places) if place.type],
            detection=self.detection,
        )
        self._count_from(places)
        renamed: list[tuple[dict[str, Any], str, str]] = []
        for place, spans in zip(places, found, strict=True):
            if not spans:
                continue
            clean = self._replaced(place.text, spans, is_key=place.is_key)
            if place.is_key:
                renamed.append((place.container, place.key, clean))
            else:
                place.container[place.key] = clean
        rename_keys(renamed)

    def _count_from(self, places: Sequence[Place]) -> None:
        """Go on behind the placeholders that are there, from the edge or another pass: theirs are other values."""
        for place in places:
            for kind, number in PLACED.findall(place.text) if "]" in place.text else ():
                self._numbers[kind] = max(self._numbers[kind], int(number))
            if "[PATH]" in place.text:
                self._numbers["PATH"] = max(self._numbers["PATH"], 1)

    def text(self, text: str) -> str:
        """The text without personal data and secrets; JSON in it stays JSON."""
        holder = [text]
        self.replace([Place(holder, 0, text)])
        return holder[0]

    def value(self, value: Any) -> Any:
        """A copy of nested lists and dictionaries without personal data and secrets."""
        holder = [copy.deepcopy(value)]
        self.replace(places_in(holder, detection=self.detection))
        return holder[0]

    def _replaced(self, text: str, spans: Sequence[Span], *, is_key: bool = False) -> str:
        pieces: list[str] = []
        position = 0
        json_text = JsonText(text)
        for span in spans:
            value = text[span.start : span.end]
            if span.type != "FILE_PATH":
                placeholder = self._placeholder(span)
            else:
                placeholder = self._path(value, span.value)
                if is_key or KEY_FOLLOWS.match(text, span.end):
                    placeholder = self._key(placeholder, span.value)
            self.replaced[span.type] += 1
            if NUMBER.fullmatch(value):
                quote = json_text.quote_at(span.start, span.end)
                placeholder = f"{quote}{placeholder}{quote}"
            pieces += [text[position : span.start], placeholder]
            position = span.end
        return "".join([*pieces, text[position:]])

    def _placeholder(self, span: Span) -> str:
        key = (span.type, span.value)
        if key not in self._placeholders:
            self._numbers[span.type] += 1
            self._placeholders[key] = f"[{span.type}_{self._numbers[span.type]}]"
        return self._placeholders[key]

    def _key(self, generalized: str, path: str) -> str:
        """A path that is a key: those that would be one key are numbered apart, so that no value of one is lost."""
        same = self._keys.setdefault(generalized, {})
        if path not in same:
            number = len(same) + self._numbers["PATH"] + 1  # behind those of another pass
            same[path] = generalized if number == 1 else generalized.replace("[PATH]", f"[PATH_{number}]", 1)
        return same[path]

    def _path(self, written: str, path: str) -> str:
        """``path`` is how it reads, which decides; ``written`` how often its backslashes are escaped."""
        backslashes = BACKSLASHES.search(written) if is_windows(path) else None
        separator = backslashes.group() if backslashes else "/"
        named = named_path(path, separator=separator, clean=self.text) if self._keep_file_names else None
        return named or generalized_path(path, separator=separator)
