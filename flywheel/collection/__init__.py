"""Collection: the side of the pool that runs inside agent services. Imports what the base installation has."""

from flywheel.collection.writer import SegmentWriter

__all__ = ["SegmentWriter"]
