"""Labelled answers: lines of a JSON Lines file that say what people, or a check, found of an answer."""

from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.judges.material import Material, conversation
from flywheel.errors import InputError
from flywheel.records import Message


class Labelled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line.

    Attributes:
        task: what was asked, as text, or as the messages of a conversation.
        answer: what was answered.
        labels: for each criterion whether the answer is good enough by it.
        id: for reports.
        group: lines that are not independent share it; None: those with the same task do.
    """

    task: str | tuple[Message, ...]
    answer: str
    labels: dict[str, bool]
    id: str = ""
    group: str | None = None

    @property
    def material(self) -> Material:
        """What a judge is shown."""
        task = self.task if isinstance(self.task, str) else conversation(self.task)
        return Material(task=task, answer=self.answer)

    @property
    def grouped(self) -> str:
        """The group that it is in."""
        return blake2b(self.material.task.encode(), digest_size=16).hexdigest() if self.group is None else self.group


class LabelledFile(Struct, frozen=True, kw_only=True):
    """What a file holds, and the digest of its bytes."""

    lines: tuple[Labelled, ...]
    digest: str


def read_labelled(path: Path) -> LabelledFile:
    """The lines of a file.

    Raises:
        InputError: it cannot be read, a line is none, or there is none; the message names file and line.
    """
    decoder = msgspec.json.Decoder(Labelled)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    lines = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        if not found.labels:
            raise InputError(f'{path}, line {number}: it has no labels; give {{"labels": {{"relevance": true}}}}')
        lines.append(found)
    if not lines:
        raise InputError(f"{path} has no labelled answer")
    return LabelledFile(lines=tuple(lines), digest=blake2b(content, digest_size=16).hexdigest())
