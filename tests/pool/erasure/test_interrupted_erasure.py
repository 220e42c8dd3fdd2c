"""An erasure that is killed, or that others write beside, comes to the same end."""

import json
import os
import threading
from typing import Any

import pytest

from flywheel.collection.segments import Frame, read_segment, write_closed_segment
from flywheel.errors import PoolError
from flywheel.pool import erasure, tenant_batches, tenant_lines, tenant_points, tenant_verdicts
from flywheel.pool.anonymization import day as anonymization
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.anonymization.points import AnonymizationJob, Anonymized, anonymize_points
from flywheel.pool.batches import list_batches
from flywheel.pool.erasure import ErasureReport, erase_tenant, find_tenant
from flywheel.pool.pool import BenchmarkPool
from tests.pool.erasure.two_tenants import (
    ERASED,
    LATER,
    OTHER,
    SECRET,
    account,
    others,
    places,
    run_stale,
)
from tests.pool.kills import KilledError, killing
from tests.pool.logs import routing
from tests.pool.test_retention import DAY


def test_segments_that_a_collector_still_writes_are_left_alone_and_counted(filled: BenchmarkPool) -> None:
    from flywheel.collection import SegmentWriter

    writer = SegmentWriter(filled.settings.segments_dir, clock=lambda: LATER)
    writer.append(json.dumps(routing("late", tenant=ERASED)).encode())
    writer.append(json.dumps(routing("late", tenant=OTHER)).encode())
    report = erase_tenant(filled, ERASED, now=LATER)
    assert (report.open_segments, report.open_lines) == (1, 1)
    writer.close()
    assert erase_tenant(filled, ERASED, now=LATER).removed["segments"] == 1
    assert places(filled) == set()


def test_what_a_killed_writer_left_half_written_is_removed(filled: BenchmarkPool) -> None:
    left, young = (filled.settings.segments_dir / f"x.segment.{number}.partial" for number in (1, 2))
    for path in (left, young):
        path.write_bytes(SECRET.encode())
    os.utime(left, (0, 0))
    erase_tenant(filled, ERASED, now=LATER)
    assert (left.exists(), young.exists()) == (False, True)


KILLS: list[tuple[Any, str]] = [  # inner steps before the one they are in, which is done once it was killed after
    (tenant_lines, "write_closed_segment"),
    (tenant_lines, "forget_lines"),
    (tenant_lines, "mark_changed"),
    (erasure, "deliver_verdicts"),
    (tenant_verdicts, "erase_verdicts"),
    (erasure, "erase_verdicts_of"),
    (erasure, "erase_letters"),
    (erasure, "erase_lines"),
    (BenchmarkPool, "replace"),
    (tenant_points, "recount_tiers"),
    (tenant_points, "refresh_statistics"),
    (erasure, "erase_points"),
    (tenant_batches, "erase_rows"),
    (tenant_batches, "remove_exports"),
    (tenant_batches, "correct"),
    (erasure, "erase_from_batch"),
    (BenchmarkPool, "forget"),
    (erasure, "named"),
]


def test_an_erasure_that_is_killed_at_every_step_comes_to_the_same_end(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = others(filled)
    announced = find_tenant(filled, ERASED, now=LATER)
    for owner, name in KILLS:
        for at_once in (True, False):
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, killing(getattr(owner, name), before=at_once))
                with pytest.raises(KilledError):
                    erase_tenant(filled, ERASED, now=LATER)
    report = erase_tenant(filled, ERASED, now=LATER)
    assert (report.removed, report.days, report.batches) == (announced.removed, announced.days, announced.batches)
    assert (report.finished_at, report.repeated) == (LATER, False)
    assert places(filled) == set()
    assert others(filled) == before
    (batch,) = list_batches(filled)
    assert batch.criteria["erased"][0]["points"] == 12
    run_stale(filled)
    assert (account(filled)["points"], filled.get_agent_statistics("agent-a").tasks) == (12, 6)
    with filled.transaction() as connection:
        assert connection.execute("SELECT count(*), count(finished_at) FROM erasures").fetchone() == (1, 1)


def test_a_run_in_progress_does_not_write_the_points_back(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()
    real = anonymize_points

    def paused(job: AnonymizationJob) -> Anonymized:
        clean = real(job)
        reading.set()
        go_on.wait(60)
        return clean

    monkeypatch.setattr(anonymization, "anonymize_points", paused)
    running = threading.Thread(target=anonymize_day, args=(filled, DAY))
    running.start()
    assert reading.wait(60)
    erasing = threading.Thread(target=erase_tenant, args=(filled, ERASED), kwargs={"now": LATER})
    erasing.start()
    erasing.join(3)
    assert erasing.is_alive()
    go_on.set()
    running.join()
    erasing.join()
    assert places(filled) == set()


def test_a_segment_that_is_missing_stops_the_erasure_until_it_is_back(filled: BenchmarkPool) -> None:
    path = filled.settings.segments_dir / "c.segment"
    content = [frame.payload for frame in read_segment(path) if isinstance(frame, Frame)]
    path.unlink()
    with pytest.raises(PoolError, match=r"c\.segment is in the ledger but not in"):
        erase_tenant(filled, ERASED, now=LATER)
    write_closed_segment(path, content)
    report: ErasureReport = erase_tenant(filled, ERASED, now=LATER)
    assert report.finished_at
    assert places(filled) == set()
