"""Reads working specs from YAML, and says of each mistake in one in which line and field it is and what to do."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from pydantic import ValidationError

from flywheel.arbiter.evaluation.working_spec.spec import WorkingSpec
from flywheel.errors import InputError

LARGEST_FILE_BYTES = 1 << 20
SHOWN_PROBLEMS = 10
DEEPEST = 50
BEGINS = (
    *(yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken),
    *(yaml.BlockMappingStartToken, yaml.BlockSequenceStartToken),
)
ENDS = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken, yaml.BlockEndToken)
Place = Sequence[int | str]


class Problem(Struct, frozen=True, kw_only=True):
    """A mistake: where it is, and what to do. Lines count from 1; ``field`` is empty for the file as a whole."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: "
        return f"{place}{self.field}: {self.message}" if self.field else place + self.message


def load_spec(path: Path) -> WorkingSpec:
    """The working spec of a file.

    Raises:
        InputError: it cannot be read or used; the message has file, line and field of each mistake.
    """
    read = read_spec(path)
    if isinstance(read, WorkingSpec):
        return read
    more = f"\n… and {len(read) - SHOWN_PROBLEMS} more" if len(read) > SHOWN_PROBLEMS else ""
    raise InputError("\n".join(map(str, read[:SHOWN_PROBLEMS])) + more)


def read_spec(path: Path) -> WorkingSpec | list[Problem]:
    """The working spec of a file, or all its mistakes.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError(f"{path} is larger than {LARGEST_FILE_BYTES:,} bytes; is it a working spec?")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8: {error}; save it as that") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return parse_spec(text, name=str(path))


def parse_spec(text: str, *, name: str) -> WorkingSpec | list[Problem]:
    """The working spec of a text, or all its mistakes; ``name`` is what they are said of."""
    try:
        tree = _tree(text)
        if not isinstance(tree, yaml.MappingNode):
            return [
                Problem(file=name, line=1, field="", message="no fields; begin with id, version, risk_tier, budget")
            ]
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return [Problem(file=name, line=line, field="", message=f"not YAML: {error.problem or error}")]
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        return [Problem(file=name, line=1, field="", message=f"not YAML: {' '.join(str(error).split())}")]
    try:
        spec = WorkingSpec.model_validate(values)
    except ValidationError as error:
        found: Iterable[tuple[Place, str]] = ((each["loc"], _words(each)) for each in error.errors())
    else:
        found = spec.problems()
        if not found:
            return spec
    problems = [_problem(tree, name, place, message) for place, message in found]
    return sorted(problems, key=lambda problem: problem.line)


def _tree(text: str) -> yaml.Node | None:
    """The text's nodes with their lines; aliases and keys that stand twice are errors."""
    _refuse_what_grows(text)
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    pending = [tree] if tree is not None else []
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if str(key.value) in keys:
                    raise yaml.MarkedYAMLError(problem=f"{key.value} stands twice", problem_mark=key.start_mark)
                keys.add(str(key.value))
                pending.append(value)
    return tree


def _refuse_what_grows(text: str) -> None:
    """A small text can stand for much by aliases, and take long by its depth."""
    depth = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.AliasToken):
            message = f"*{token.value}: aliases are not read; write it out"
            raise yaml.MarkedYAMLError(problem=message, problem_mark=token.start_mark)
        depth += isinstance(token, BEGINS) - isinstance(token, ENDS)
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"more than {DEEPEST} levels deep", problem_mark=token.start_mark)


def _problem(tree: yaml.Node, name: str, place: Place, message: str) -> Problem:
    """The mistake with the line of the innermost node that is there. pydantic's names of alternatives are left out."""
    node, line, field = tree, tree.start_mark.line, ""
    for index, part in enumerate(place):
        found = _child(node, part)
        if found is not None:
            node, line = found
        elif index < len(place) - 1 or not isinstance(node, yaml.MappingNode):
            continue
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
    return Problem(file=name, line=line + 1, field=field, message=message)


def _child(node: yaml.Node, part: int | str) -> tuple[yaml.Node, int] | None:
    """A part of a node, with the line that names it."""
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line
    return None


def _words(error: Any) -> str:
    """What a mistake is and what to do, in words."""
    kind, message = error["type"], error["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return "it is missing; add it"
    if kind == "extra_forbidden":
        return f"there is no such field{_meant(error['loc'])}; take it away or mend its name"
    if kind == "union_tag_not_found":
        return "it does not say which gate it is; add gate: tests, for example"
    if kind == "string_type":
        return f"{message}; put {error['input']!r} in quotes"
    if kind == "value_error":
        return str(message)
    given = f", not {error['input']!r:.80}" if isinstance(error["input"], str | int | float) else ""
    return f"{message[:1].lower()}{message[1:]}{given}"


def _meant(place: Place) -> str:
    """A field whose name is like the one that is not known."""
    if len(place) != 1:
        return ""
    close = difflib.get_close_matches(str(place[0]), WorkingSpec.model_fields, n=1)
    return f", {close[0]} is meant perhaps" if close else ""
