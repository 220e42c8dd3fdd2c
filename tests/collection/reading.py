"""What tests read back from a folder of segments."""

from pathlib import Path

from flywheel.collection.segments import Damage, Frame, closed_segments, read_segment


def payloads_in(folder: Path) -> list[bytes]:
    """Every payload of every closed segment, as often as it is there."""
    items = [item for path in closed_segments(folder) for item in read_segment(path)]
    return [item.payload for item in items if isinstance(item, Frame)]


def damages_in(folder: Path) -> list[Damage]:
    return [item for path in closed_segments(folder) for item in read_segment(path) if isinstance(item, Damage)]
