"""Where the texts of a record are: strings in nested dictionaries and lists, keys that are values, bare numbers."""

from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.detection import DEFAULT, Detection

WORD = 20  # letters: nothing to find in a role, a verdict, a language


class Place(Struct, frozen=True):
    """A text in a record: the value of ``container`` at ``key``, or the key itself.

    ``type`` is what its key says that it is as a whole, or None.
    """

    container: Any
    key: Any
    text: str
    type: str | None = None
    is_key: bool = False


def places_in(value: Any, *, kept: tuple[str, ...] = (), detection: Detection = DEFAULT) -> list[Place]:
    """Every text within a dictionary or list. ``kept`` names keys of the outermost one to leave out.

    ``detection`` says what keys mean.
    """
    places: list[Place] = []
    collect(value, places, detection, kept=kept)
    return places


def collect(
    value: Any,
    places: list[Place],
    detection: Detection,
    *,
    kept: tuple[str, ...] = (),
    kind: str | None = None,
) -> None:
    """Add them to the places."""
    is_list = type(value) is list
    items: Any = enumerate(value) if is_list else value.items()
    of_item, is_value = kind, False
    facts_of_key = detection.facts_of_key
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
            collect(item, places, detection, kind=of_item)
        elif type(item) is dict:
            collect(item, places, detection)
        elif type(item) is int and of_item in detection.numeric:
            places.append(Place(value, key, str(item), of_item))


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
