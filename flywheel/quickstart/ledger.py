"""How long stages took and how much memory they needed, over all runs of one home."""

from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.errors import ServiceError


class Ledger(Struct, kw_only=True):
    """Seconds per stage, summed over the runs that worked on it; the largest memory seen; where the base model is."""

    seconds: dict[str, float] = {}
    peak_memory_gib: float = 0.0
    base_model: str = ""

    def add_seconds(self, stage: str, seconds: float) -> None:
        """Count time for a stage; a stage that was killed and resumed counts both times."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def add_memory(self, gib: float) -> None:
        """Remember a peak."""
        self.peak_memory_gib = max(self.peak_memory_gib, gib)


def ledger_file(home: Path) -> Path:
    """Where the ledger of a home lies."""
    return home / "quickstart.json"


def read_ledger(home: Path) -> Ledger:
    """The ledger of a home; an empty one before the first run.

    Raises:
        ServiceError: the file is damaged.
    """
    if not ledger_file(home).exists():
        return Ledger()
    try:
        return msgspec.json.decode(ledger_file(home).read_bytes(), type=Ledger)
    except msgspec.MsgspecError as error:
        raise ServiceError(
            f"{ledger_file(home)} cannot be read: {error}; remove it to lose only the timings"
        ) from error


def write_ledger(home: Path, ledger: Ledger) -> None:
    """Write the ledger, whole or not at all."""
    part = ledger_file(home).with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(ledger)))
    part.replace(ledger_file(home))
