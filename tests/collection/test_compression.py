"""A compressed segment is the same segment: same frames, same offsets; a damaged block costs its frames alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.collection import compression
from flywheel.collection.compression import COMPRESSED_MAGIC, compress, decompress
from flywheel.collection.segments import (
    HEADER,
    MAGIC,
    Damage,
    Frame,
    OpenedSegment,
    read_segment,
    segment_bytes,
    write_closed_segment,
)
from flywheel.errors import NotASegmentError

LINES = [b"line %d " % number + bytes([number % 251]) * (number * 37 % 900) for number in range(2_000)]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    plain, packed = tmp_path / "plain.segment", tmp_path / "packed.segment"
    write_closed_segment(plain, LINES, compressed=False)
    write_closed_segment(packed, LINES)
    return plain, packed


def test_a_compressed_segment_reads_as_the_one_that_was_compressed(pair: tuple[Path, Path]) -> None:
    plain, packed = pair
    assert packed.read_bytes().startswith(COMPRESSED_MAGIC)
    assert packed.stat().st_size < plain.stat().st_size / 4
    assert list(read_segment(packed)) == list(read_segment(plain))
    assert segment_bytes(packed) == plain.read_bytes()


def test_a_line_is_read_by_its_offset_in_either_form(pair: tuple[Path, Path]) -> None:
    frames = [frame for frame in read_segment(pair[0]) if isinstance(frame, Frame)]
    for path in pair:
        with OpenedSegment(path) as segment:
            found = [segment.read(len(frame.payload), frame.offset + HEADER.size) for frame in frames]
            assert segment.read(100, plain_size := pair[0].stat().st_size) == b""
            assert segment.read(100, plain_size - 10) == pair[0].read_bytes()[-10:]
        assert found == LINES


def test_a_flipped_bit_costs_the_frames_of_its_block_and_is_counted(pair: tuple[Path, Path]) -> None:
    _, packed = pair
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 1
    packed.write_bytes(content)
    items = list(read_segment(packed))
    found = [item.payload for item in items if isinstance(item, Frame)]
    assert set(found) < set(LINES)
    lost = sum(map(len, LINES)) - sum(map(len, found))
    assert 0 < lost <= compression.BLOCK_BYTES + 2_000
    assert [item.kind for item in items if isinstance(item, Damage)] == ["corrupt"]


@pytest.mark.parametrize("missing", [1, 100, 20_000])
def test_a_truncated_file_loses_its_last_frames_and_says_so(pair: tuple[Path, Path], missing: int) -> None:
    _, packed = pair
    packed.write_bytes(packed.read_bytes()[:-missing])
    items = list(read_segment(packed))
    found = [item.payload for item in items if isinstance(item, Frame)]
    assert found == LINES[: len(found)]
    assert [item.kind for item in items if isinstance(item, Damage)] == ["torn-tail"]


def test_what_follows_the_last_block_is_damage(pair: tuple[Path, Path]) -> None:
    _, packed = pair
    packed.write_bytes(packed.read_bytes() + b"something else")
    *frames, damage = read_segment(packed)
    assert len(frames) == len(LINES)
    assert isinstance(damage, Damage)
    assert damage.size == len(b"something else")


@given(data=st.binary(max_size=400), block_bytes=st.integers(1, 50))
def test_compressing_is_undone_whatever_the_bytes_and_blocks(data: bytes, block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "BLOCK_BYTES", block_bytes)
        assert decompress(b"".join(compress(MAGIC + data)), start=MAGIC) == MAGIC + data


@given(content=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda data: COMPRESSED_MAGIC + data)))
def test_random_bytes_hold_no_frame_and_break_no_reader(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("segment") / "a.segment"
    path.write_bytes(content)
    try:
        assert not [item for item in read_segment(path) if isinstance(item, Frame)]
    except NotASegmentError:
        assert not content.startswith((COMPRESSED_MAGIC, MAGIC))


@given(position=st.integers(0), value=st.integers(0, 255), cut=st.integers(0, 300))
def test_no_damage_makes_a_payload_that_nobody_wrote(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("segment") / "a.segment"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "BLOCK_BYTES", 64)
        lines = [b"%d" % number * number for number in range(1, 40)]
        write_closed_segment(path, lines)
        content = bytearray(path.read_bytes())
        content[position % len(content)] = value
        path.write_bytes(content[: len(content) - cut])
        try:
            found = [item.payload for item in read_segment(path) if isinstance(item, Frame)]
        except NotASegmentError:
            return
    assert [line for line in lines if line in found] == found
