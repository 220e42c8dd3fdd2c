"""Where the texts of a record are: strings in nested dictionaries and lists, keys that are values, bare numbers."""

from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.detection import DEFAULT, Detection

WORD = 20  # letters: a longer one may be a secret
NONE: frozenset[str] = frozenset()


class Place(Struct, frozen=True):
    """A text in a record: the value of ``container`` at ``key``, or the key itself.

    ``type`` is what its key says that it is as a whole, or None.
    """

    container: Any
    key: Any
    text: str
    type: str | None = None
    is_key: bool = False


def places_in(value: Any, *, kept: frozenset[str] = NONE, detection: Detection = DEFAULT) -> list[Place]:
    """Every text within a dictionary or list. ``kept`` names keys of the outermost one to leave out.

    ``detection`` says what keys mean.
    """
    places: list[Place] = []
    if type(value) is list:
        collect_items(value, places, detection)
    else:
        collect(value, places, detection, kept=kept)
    return places


def collect(value: dict[str, Any], places: list[Place], detection: Detection, *, kept: frozenset[str] = NONE) -> None:
    """Add those of a dictionary."""
    facts_of_key = detection.facts_of_key
    for key, item in value.items():
        if key in kept:
            continue
        kind, is_value = facts_of_key(key)
        if is_value:
            places.append(Place(value, key, key, is_key=True))
        type_of_item = type(item)
        if type_of_item is str:
            if kind or not is_plain_word(item):
                places.append(Place(value, key, item, kind))
        elif type_of_item is int:
            if kind in detection.numeric:
                places.append(Place(value, key, str(item), kind))
        elif item and type_of_item is list:
            collect_items(item, places, detection, kind=kind)
        elif item and type_of_item is dict:
            collect(item, places, detection)


def collect_items(value: list[Any], places: list[Place], detection: Detection, *, kind: str | None = None) -> None:
    """Add those of a list; ``kind`` is what its key says of its items."""
    for number, item in enumerate(value):
        type_of_item = type(item)
        if type_of_item is dict:
            collect(item, places, detection)
        elif type_of_item is str:
            if kind or not is_plain_word(item):
                places.append(Place(value, number, item, kind))
        elif type_of_item is list:
            collect_items(item, places, detection, kind=kind)
        elif type_of_item is int and kind in detection.numeric:
            places.append(Place(value, number, str(item), kind))


def is_plain_word(text: str) -> bool:
    """Whether there is nothing to find in it: a role, a verdict, a language."""
    return len(text) <= WORD and text.isalpha() and text.islower()


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
