"""Collection: the side of the pool that runs inside agent services. Imports what the base installation has."""

from flywheel.collection.collector import Collector
from flywheel.collection.sampling import Sampling
from flywheel.collection.task_log import TaskLog, current_task
from flywheel.collection.writer import SegmentWriter

__all__ = ["Collector", "Sampling", "SegmentWriter", "TaskLog", "current_task"]
