"""Where the texts of a record are: strings in nested dictionaries and lists, keys that are values, bare numbers."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.keys import NUMERIC, type_of_key

WORD = re.compile(r"[a-z]{0,20}\Z")  # nothing to find in a role, a verdict, a language
NAME = re.compile(r"[A-Za-z][A-Za-z_]*\Z")
"""A key of such a form is the name of a field, not a value."""


class Place(Struct, frozen=True):
    """A text in a record: the value of ``container`` at ``key``, or the key itself.

    ``type`` is what its key says that it is as a whole, or None.
    """

    container: Any
    key: Any
    text: str
    type: str | None = None
    is_key: bool = False


def places_in(value: Any, *, kept: tuple[str, ...] = (), kind: str | None = None) -> Iterator[Place]:
    """Every text within a dictionary or list. ``kept`` names keys of the outermost one to leave out."""
    items: Any = value.items() if type(value) is dict else enumerate(value)
    for key, item in items:
        if key in kept:
            continue
        of_item = kind
        if type(key) is str:
            of_item = type_of_key(key)
            if not NAME.match(key):
                yield Place(value, key, key, is_key=True)
        if type(item) is str:
            if of_item or not WORD.match(item):
                yield Place(value, key, item, of_item)
        elif type(item) is dict or type(item) is list:
            yield from places_in(item, kind=of_item if type(item) is list else None)
        elif type(item) is int and of_item in NUMERIC:
            yield Place(value, key, str(item), of_item)


def rename_keys(renamed: list[tuple[dict[str, Any], str, str]]) -> None:
    """Give keys of dictionaries other names, in their places; where two would be one, the later gets a mark."""
    of_each: dict[int, tuple[dict[str, Any], dict[str, str]]] = {}
    for container, key, name in renamed:
        of_each.setdefault(id(container), (container, {}))[1][key] = name
    for container, names in of_each.values():
        items = list(container.items())
        container.clear()
        for key, item in items:
            name = names.get(key, key)
            while name in container:
                name += "_"
            container[name] = item
