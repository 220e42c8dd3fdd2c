"""The words that judges are asked in. They are files; whoever changes one raises ``VERSION``."""

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct

from flywheel.arbiter.evaluation.judges.criteria import Criterion
from flywheel.arbiter.evaluation.judges.material import Material, boundary_of, shown
from flywheel.records import Message

VERSION = 1
FOLDER = Path(__file__).parent / "wording"
LONGEST_REPEATED = 2_000
"""Characters of an unusable reply that the judge is shown again."""


def _reply_schema(**fields: dict[str, Any]) -> dict[str, Any]:
    """Of an object with a reason first: what is written before the verdict can still change it."""
    properties = {"reason": {"type": "string"}, **fields, "confidence": {"type": "number"}}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCORE_SCHEMA = _reply_schema(score={"type": "number"})
COMPARE_SCHEMA = _reply_schema(better={"type": "string", "enum": ["first", "second", "tie"]})


class Question(Struct, frozen=True, kw_only=True):
    """What a judge is asked, and the schema of its reply."""

    messages: tuple[Message, ...]
    schema: dict[str, Any]


def score_question(criterion: Criterion, material: Material) -> Question:
    """How well the answer does by the criterion."""
    boundary = boundary_of(material.task, material.answer)
    told = {"criterion": criterion.name, "boundary": boundary}
    system = _text("score").format(instructions=criterion.instructions.strip(), **told)
    asked = _text("score-material").format(task=shown(material.task), answer=shown(material.answer), **told)
    return Question(messages=_two(system, asked), schema=SCORE_SCHEMA)


def compare_question(criterion: Criterion, task: str, first: str, second: str) -> Question:
    """Which of two answers does better by the criterion."""
    boundary = boundary_of(task, first, second)
    told = {"criterion": criterion.name, "boundary": boundary}
    system = _text("compare").format(instructions=criterion.instructions.strip(), **told)
    material = {"task": shown(task), "first": shown(first), "second": shown(second)}
    return Question(messages=_two(system, _text("compare-material").format(**material, **told)), schema=COMPARE_SCHEMA)


def repair_question(question: Question, reply: str, problem: str) -> Question:
    """The same once more, after a reply that cannot be used."""
    said = Message(role="assistant", content=shown(reply[:LONGEST_REPEATED]))
    asked = Message(role="user", content=_text("repair").format(problem=problem))
    return Question(messages=(*question.messages, said, asked), schema=question.schema)


@cache
def digest() -> bytes:
    """Of all the words, whatever version they claim to be."""
    whole = blake2b(f"{VERSION}".encode(), digest_size=16)
    for path in sorted(FOLDER.glob("*.txt")):
        whole.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.digest()


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip()


def _two(system: str, user: str) -> tuple[Message, ...]:
    return Message(role="system", content=system), Message(role="user", content=user)
