"""What tests read back from a folder of segments."""

from pathlib import Path

from flywheel.collection import Collector
from flywheel.collection.segments import Damage, Frame, closed_segments, read_segment
from flywheel.records import Log, decode_log


def logged(collector: Collector, folder: Path) -> list[Log]:
    """What a collector has logged, which is closed for it."""
    collector.close()
    return [decode_log(payload) for payload in payloads_in(folder)]


def payloads_in(folder: Path) -> list[bytes]:
    """Every payload of every closed segment, as often as it is there."""
    items = [item for path in closed_segments(folder) for item in read_segment(path)]
    return [item.payload for item in items if isinstance(item, Frame)]


def damages_in(folder: Path) -> list[Damage]:
    return [item for path in closed_segments(folder) for item in read_segment(path) if isinstance(item, Damage)]
