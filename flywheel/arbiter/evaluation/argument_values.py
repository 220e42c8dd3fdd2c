"""Whether one argument has the right type and value, by the rules of the Berkeley Function Calling Leaderboard.

The rules are those of its ``ast_checker`` (bfcl-eval 2026.3.23, Python language), oddities included, so that figures
here and there compare. ``tests/arbiter/evaluation/test_bfcl_agreement.py`` holds both against each other.
"""

import re
from typing import Any

PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
    # Spellings of JSON schema proper; the benchmark writes dict and float.
    "object": dict,
    "number": float,
}
_IGNORED_IN_STRINGS = re.compile(r"[ ,./\-_*^]")


def argument_problem(schema: dict[str, Any], value: Any, alternatives: tuple[Any, ...]) -> str | None:
    """What is wrong with an argument; None where it is right.

    Args:
        schema: the parameter's JSON schema (``type``, and ``items.type`` for arrays).
        value: what the agent wrote, as JSON decodes it.
        alternatives: the values that count as right; ``""`` says that the argument may be left out.
    """
    expected = PYTHON_TYPES.get(schema.get("type", "any"), str)
    nested = _nested_type(schema)
    if schema.get("type") in {"float", "number"} and type(value) is int:
        value = _as_float(value)
    answer_type = _first_type(alternatives)
    if type(value) is expected:
        if nested is not None and not any(_items_fit(value, answer, nested) for answer in alternatives):
            return f"expected items of type {nested.__name__}, got {value!r}"
        # An answer of another type than the schema's stands for a variable or null: compared as it is.
        literal = answer_type is not None and answer_type is not expected
    elif answer_type is not None and type(value) is answer_type:
        literal = True
    else:
        return f"expected type {schema.get('type')}, got {type(value).__name__} {value!r}"
    right = value in alternatives if literal else _value_fits(value, alternatives, nested)
    return None if right else f"expected one of {list(alternatives)!r}, got {value!r}"


def _nested_type(schema: dict[str, Any]) -> type | None:
    if schema.get("type") not in {"array", "tuple"}:
        return None
    return PYTHON_TYPES.get((schema.get("items") or {}).get("type", ""))


def _as_float(value: int) -> float | int:
    try:
        return float(value)
    except OverflowError:
        return value  # stays an integer, and so of the wrong type


def _first_type(alternatives: Any) -> type | None:
    return next((type(answer) for answer in alternatives if answer != ""), None)


def _items_fit(value: Any, answer: Any, nested: type) -> bool:
    # Only a list among the alternatives says anything about items; "" lets every list pass on to the comparison.
    if not isinstance(answer, list):
        return True
    answer_type = _first_type(answer)
    return all(type(item) is nested or (answer_type is not None and type(item) is answer_type) for item in value)


def _value_fits(value: Any, alternatives: tuple[Any, ...], nested: type | None) -> bool:
    if isinstance(value, str):
        return _standard(value) in [_standard(answer) for answer in alternatives if isinstance(answer, str)]
    if isinstance(value, dict):
        return any(_dict_fits(value, answer) for answer in alternatives if answer != "")
    if isinstance(value, list) and nested is dict:
        return any(_dicts_fit(value, answer) for answer in alternatives)
    if isinstance(value, list):
        items = [_standard(item) for item in value]
        return any(items == [_standard(item) for item in answer] for answer in alternatives if _is_sequence(answer))
    return value in alternatives


def _dict_fits(value: dict[str, Any], answer: Any) -> bool:
    if not isinstance(answer, dict) or not all(isinstance(allowed, list | tuple) for allowed in answer.values()):
        return False
    for key, item in value.items():
        if key not in answer or _standard(item) not in [_standard(allowed) for allowed in answer[key]]:
            return False
    return all(key in value or "" in allowed for key, allowed in answer.items())


def _dicts_fit(values: list[Any], answer: Any) -> bool:
    if not _is_sequence(answer) or len(values) != len(answer):
        return False
    return all(isinstance(value, dict) and _dict_fits(value, item) for value, item in zip(values, answer, strict=True))


def _is_sequence(answer: Any) -> bool:
    return isinstance(answer, list | str)


def _standard(value: Any) -> Any:
    """A string without case, spaces and the punctuation that dates and names differ in; other values as they are."""
    if not isinstance(value, str):
        return value
    return _IGNORED_IN_STRINGS.sub("", value).lower().replace("'", '"')
