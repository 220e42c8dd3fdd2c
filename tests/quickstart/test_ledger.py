from pathlib import Path

import pytest

from flywheel.errors import ServiceError
from flywheel.quickstart.ledger import Ledger, ledger_file, read_ledger, write_ledger


def test_a_resumed_stage_counts_both_its_times_and_memory_its_peak(tmp_path: Path) -> None:
    for seconds, memory in ((10.0, 3.5), (2.5, 2.0)):
        ledger = read_ledger(tmp_path)
        ledger.add_seconds("tasks before", seconds)
        ledger.add_memory(memory)
        write_ledger(tmp_path, ledger)
    assert read_ledger(tmp_path) == Ledger(seconds={"tasks before": 12.5}, peak_memory_gib=3.5)


def test_a_damaged_ledger_says_what_is_lost_without_it(tmp_path: Path) -> None:
    ledger_file(tmp_path).write_text("{")
    with pytest.raises(ServiceError, match="lose only the timings"):
        read_ledger(tmp_path)
