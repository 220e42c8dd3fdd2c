"""The disk is full while spans wait: nothing is lost, nothing is left lying about, and room is enough to go on."""

import operator
import os
from pathlib import Path

import msgspec
import pytest

from flywheel.collection.dead_letters import FOLDER, list_dead_letters
from flywheel.collection.importers.otlp_spans import Span
from flywheel.collection.receiver import assembling
from flywheel.collection.receiver.assembling import Round
from flywheel.collection.receiver.span_store import load
from tests.collection.importers.spans import agent, chat
from tests.collection.receiver.test_assembling import CAME, Folders

LARGE = 90_000  # characters of a conversation; half a megabyte holds it twice


def large(held: Span) -> Span:
    attributes = held.attributes | {"note": os.urandom(LARGE // 2).hex()}
    return msgspec.structs.replace(held, attributes=attributes)


def fill(disk: Path) -> Path:
    """Take all room that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return ballast


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("fault", [False, True])
def test_a_round_without_room_changes_nothing_and_is_made_up_for(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, fault: bool
) -> None:
    """Also where a trace has to be set aside, which takes room as well."""
    folders = Folders(small_disk)
    folders.receive(large(agent()), chat(2))
    before = files(folders.spans)
    ballast = fill(small_disk)
    if fault:
        monkeypatch.setattr(assembling, "logs_of_trace", operator.itemgetter("a fault"))
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            folders.round(at=CAME + 11)
    assert [name for name in files(folders.spans) if name != "assembler.lock"] == before
    assert load(folders.spans).waiting == 2
    ballast.unlink()
    expected = Round(set_aside=("TypeError",)) if fault else Round(records=1, logs=1)
    assert folders.round(at=CAME + 12) == expected
    assert len(list_dead_letters(folders.spans / FOLDER)) == int(fault)
    assert folders.kinds == ([] if fault else ["execution"])
