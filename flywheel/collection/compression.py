"""The compressed form of a segment's bytes: independent zstd blocks, so that one line can be read without the others.

A compressed segment is ``COMPRESSED_MAGIC`` and blocks. A block is marker, number, size of the whole segment
uncompressed, stored size and CRC-32 (little-endian), then ``BLOCK_BYTES`` of the segment as one zstd frame; the last
block holds the rest. Offsets of frames and lines are those of the uncompressed segment, so it does not matter to any
reader in which form a segment lies. A block that cannot be read costs the frames in it: its bytes are ``LOST``.
"""

import struct
import zlib
from collections.abc import Iterator

from msgspec import Struct

COMPRESSED_MAGIC = b"FLYSEGZ1"
BLOCK_MARKER = b"\xf2\x7a\xf2\x7a"
BLOCK_HEADER = struct.Struct("<4sIQII")
BLOCK_BYTES = 128 * 1024
MAX_BYTES = 1 << 32  # of a segment; a damaged file cannot ask for more memory
LEVEL = 1  # the fastest one: higher ones save a twentieth and cost half as much again
LOST = b"\xff"  # neither a frame nor the zeros of a preallocated tail: what is lost is counted


class Block(Struct, frozen=True, kw_only=True):
    """Where a block lies in its file. ``size`` is of the whole segment, uncompressed."""

    number: int
    size: int
    start: int
    stored: int


def compress(data: bytes) -> Iterator[bytes]:
    """A segment's bytes as the pieces of its compressed form."""
    import zstandard

    yield COMPRESSED_MAGIC
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    view = memoryview(data)
    for number, start in enumerate(range(0, len(data), BLOCK_BYTES)):
        stored = compressor.compress(view[start : start + BLOCK_BYTES])
        yield BLOCK_HEADER.pack(BLOCK_MARKER, number, len(data), len(stored), _checksum(number, len(data), stored))
        yield stored


def blocks_of(content: bytes) -> tuple[dict[int, Block], int]:
    """The readable blocks of a compressed file, by number, and where the last of them ends."""
    found = {}
    position = end = len(COMPRESSED_MAGIC)
    while position >= 0:
        block = _block_at(content, position)
        if block is None:
            position = content.find(BLOCK_MARKER, position + 1)
            continue
        found[block.number] = block
        position = end = block.start + block.stored
    return found, end


class BlockReader:
    """Reads blocks of one compressed file; not for two threads at once."""

    def __init__(self, content: bytes) -> None:
        import zstandard

        self._content = content
        self._decompressor = zstandard.ZstdDecompressor()
        self._unreadable = zstandard.ZstdError
        self._blocks, self.end = blocks_of(content)
        self.size = max((block.size for block in self._blocks.values()), default=0)

    def read(self, number: int) -> bytes:
        """What a block holds, uncompressed; ``LOST`` where it cannot be read."""
        data = bytearray(min(BLOCK_BYTES, self.size - number * BLOCK_BYTES))
        self.read_into(number, memoryview(data))
        return bytes(data)

    def read_into(self, number: int, target: memoryview) -> None:
        """The same, to where it belongs: pieces that are joined later cost twice as much as decompressing them."""
        block = self._blocks.get(number)
        size = 0
        if block is not None:
            stored = memoryview(self._content)[block.start : block.start + block.stored]
            try:
                with self._decompressor.stream_reader(stored) as reader:
                    size = reader.readinto(target)
            except self._unreadable:
                size = 0
        if size != len(target):
            target[:] = LOST * len(target)


def decompress(content: bytes, *, start: bytes) -> bytearray:
    """The bytes of a segment from its compressed file, and unreadable bytes behind its last block as they are.

    ``start`` is what every segment begins with, and so is never lost.
    """
    blocks = BlockReader(content)
    data = bytearray(blocks.size)
    with memoryview(data) as view:
        for number, low in enumerate(range(0, blocks.size, BLOCK_BYTES)):
            blocks.read_into(number, view[low : low + BLOCK_BYTES])
    data += content[blocks.end :]
    data[: len(start)] = start
    return data


def _block_at(content: bytes, position: int) -> Block | None:
    if position + BLOCK_HEADER.size > len(content):
        return None
    marker, number, size, stored, checksum = BLOCK_HEADER.unpack_from(content, position)
    start = position + BLOCK_HEADER.size
    if marker != BLOCK_MARKER or start + stored > len(content) or not number * BLOCK_BYTES < size <= MAX_BYTES:
        return None
    if _checksum(number, size, content[start : start + stored]) != checksum:
        return None
    return Block(number=number, size=size, start=start, stored=stored)


def _checksum(number: int, size: int, stored: bytes) -> int:
    return zlib.crc32(stored, zlib.crc32(struct.pack("<IQ", number, size)))
