"""What may be replaced without asking whether the point still is one."""

from collections.abc import Iterator
from typing import Any

from msgspec import inspect

from flywheel.pool.anonymization.places import Place
from flywheel.pool.anonymization.points import FREE_TEXTS, only_free_texts_changed
from flywheel.records import DataPoint


def fields_within(kind: inspect.Type) -> Iterator[inspect.Field]:
    """Every field of a type of records, those of its parts too."""
    match kind:
        case inspect.StructType():
            for field in kind.fields:
                yield field
                yield from fields_within(field.type)
        case inspect.VarTupleType():
            yield from fields_within(kind.item_type)
        case inspect.UnionType():
            for one in kind.types:
                yield from fields_within(one)


def test_a_free_text_is_any_string_wherever_a_point_has_a_field_of_its_name() -> None:
    fields = [field for field in fields_within(inspect.type_info(DataPoint)) if field.encode_name in FREE_TEXTS]
    assert {field.encode_name for field in fields} == FREE_TEXTS
    for field in fields:
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        assert inspect.StrType() in kinds, field.encode_name


def test_a_change_of_anything_else_is_noticed() -> None:
    held: dict[str, Any] = {"content": "ask ann", "timestamp": "2026-01-05", "count": 7, "requirements": ["one"]}
    places = [
        Place(held, "content", held["content"]),
        Place(held, "timestamp", held["timestamp"]),
        Place(held["requirements"], 0, held["requirements"][0]),
    ]
    held["content"] = "ask [PERSON_1]"
    assert only_free_texts_changed(places)
    changes: list[tuple[Any, Any]] = [(held, "timestamp"), (held["requirements"], 0)]
    for container, key in changes:
        before, container[key] = container[key], "[PERSON_1]"
        assert not only_free_texts_changed(places)
        container[key] = before
    assert not only_free_texts_changed([*places, Place(held, "content", "content", is_key=True)])
    assert not only_free_texts_changed([*places, Place(held, "count", "7", "PHONE_NUMBER")])
