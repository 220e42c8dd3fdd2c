"""A day's lines sorted by task into parts on disk that fit into memory: every segment is read once."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from struct import Struct as Layout
from tempfile import TemporaryFile
from typing import IO

import msgspec

from flywheel.pool.raw import RawLine

MAX_PARTS = 256
LENGTH = Layout("<I")
BUFFER_BYTES = 1 << 18
encode_line = msgspec.msgpack.Encoder().encode
decode_line = msgspec.msgpack.Decoder(RawLine).decode


@contextmanager
def sorted_into_parts(lines: Iterable[RawLine], *, parts: int, folder: Path) -> Iterator[list[Iterator[RawLine]]]:
    """All lines of a task in one part, in their order. One part is not written to disk at all.

    The files have no name: nothing remains of them, also when the process is killed.

    Args:
        lines: of one day.
        parts: at most ``MAX_PARTS``.
        folder: on a disk with room for the day, which ``/tmp`` often is not.
    """
    if parts == 1:
        yield [iter(lines)]
        return
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile(dir=folder, buffering=BUFFER_BYTES)) for _ in range(parts)]
        for line in lines:
            encoded = encode_line(line)
            files[part_of(line, parts)].write(LENGTH.pack(len(encoded)) + encoded)
        yield [lines_in(file) for file in files]


def part_of(line: RawLine, parts: int) -> int:
    """Which part a line belongs to: by its task; lines without one are in the first."""
    return 0 if line.task_key is None else line.task_key[0] % parts


def lines_in(file: IO[bytes]) -> Iterator[RawLine]:
    """The lines of a part, in the order in which they were written."""
    file.seek(0)
    while header := file.read(LENGTH.size):
        yield decode_line(file.read(*LENGTH.unpack(header)))
