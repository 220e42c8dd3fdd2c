"""Where the texts of a record are: strings in nested dictionaries and lists, keys that are values, bare numbers."""

import re
from functools import lru_cache
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.keys import NUMERIC, type_of_key

WORD = 20  # letters: nothing to find in a role, a verdict, a language
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


def places_in(value: Any, *, kept: tuple[str, ...] = (), kind: str | None = None) -> list[Place]:
    """Every text within a dictionary or list. ``kept`` names keys of the outermost one to leave out."""
    places: list[Place] = []
    collect(value, places, kept=kept, kind=kind)
    return places


def collect(value: Any, places: list[Place], *, kept: tuple[str, ...] = (), kind: str | None = None) -> None:
    """Add them to the places."""
    is_list = type(value) is list
    items: Any = enumerate(value) if is_list else value.items()
    of_item, is_value = kind, False
    for key, item in items:
        if not is_list:
            if key in kept:
                continue
            of_item, is_value = facts_of_key(key)
            if is_value:
                places.append(Place(value, key, key, is_key=True))
        if type(item) is str:
            if of_item or not (len(item) <= WORD and item.isalpha() and item.islower()):
                places.append(Place(value, key, item, of_item))
        elif type(item) is list:
            collect(item, places, kind=of_item)
        elif type(item) is dict:
            collect(item, places)
        elif type(item) is int and of_item in NUMERIC:
            places.append(Place(value, key, str(item), of_item))


@lru_cache(maxsize=8_192)
def facts_of_key(key: str) -> tuple[str | None, bool]:
    """What the key of a dictionary says of its value, and whether it is a value itself."""
    return type_of_key(key), NAME.match(key) is None


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
