"""When training starts, and what it says when it does not."""

from typing import Any

from flywheel.training.trigger import OpenBatch, ReleaseBatch, ResumeBatch, StartBatch, Wait, next_training


def ready() -> tuple[str, ...]:
    return ()


def not_asked() -> tuple[str, ...]:
    raise AssertionError("reading the pool is costly and does not matter here")


def test_a_ready_pool_starts_a_batch() -> None:
    assert next_training(missing=ready, open_batches=(), batch_id="b1") == StartBatch(batch_id="b1")


def test_what_is_missing_is_the_reason_for_waiting() -> None:
    decision = next_training(missing=lambda: ("412 of 1,000 points",), open_batches=(), batch_id="b1")
    assert decision == Wait(reason="412 of 1,000 points")


def test_a_batch_in_training_holds_back_the_next_one() -> None:
    running = OpenBatch(id="b1", runs=("failed", "active"))
    assert next_training(missing=not_asked, open_batches=(running,), batch_id="b2") == Wait(
        reason="batch b1 is being trained"
    )


def test_an_interrupted_batch_is_resumed_before_a_new_one_starts() -> None:
    interrupted = OpenBatch(id="b1", runs=("failed",))
    decision = next_training(missing=not_asked, open_batches=(interrupted,), batch_id="b2")
    assert decision == ResumeBatch(batch_id="b1", attempt=2)


def test_a_batch_whose_run_was_never_launched_is_started() -> None:
    decision = next_training(missing=not_asked, open_batches=(OpenBatch(id="b1", runs=()),), batch_id="b2")
    assert decision == ResumeBatch(batch_id="b1", attempt=1)


def test_a_batch_that_failed_three_times_gives_its_points_back() -> None:
    hopeless = OpenBatch(id="b1", runs=("failed", "failed", "failed"))
    decision = next_training(missing=not_asked, open_batches=(hopeless,), batch_id="b2")
    assert decision == ReleaseBatch(batch_id="b1", because="its training failed 3 times")


def test_a_batch_that_gave_its_points_back_does_not_hold_back_the_next() -> None:
    released = OpenBatch(id="b1", runs=("failed", "failed", "failed"), released=True)
    assert next_training(missing=ready, open_batches=(released,), batch_id="b2") == StartBatch(batch_id="b2")


def test_a_batch_that_was_never_made_has_nothing_to_give_back() -> None:
    unmade = OpenBatch(id="b1", runs=("failed", "failed", "failed"), released=None)
    assert next_training(missing=ready, open_batches=(unmade,), batch_id="b2") == StartBatch(batch_id="b2")


def test_a_released_batch_is_not_tried_again_when_the_services_forget_its_failures() -> None:
    released = OpenBatch(id="b1", runs=(), released=True)
    assert next_training(missing=ready, open_batches=(released,), batch_id="b2") == StartBatch(batch_id="b2")


def test_after_two_batches_in_a_row_that_were_given_up_a_person_has_to_look() -> None:
    failed: dict[str, Any] = {"runs": ("failed", "failed", "failed"), "released": True}
    decision = next_training(
        missing=not_asked, open_batches=(OpenBatch(id="b1", **failed), OpenBatch(id="b2", **failed)), batch_id="b3"
    )
    assert isinstance(decision, Wait)
    assert decision.reason.startswith("batches b1, b2 failed 3 times each and none was trained since")


def test_a_verdict_in_between_ends_the_row() -> None:
    failed: dict[str, Any] = {"runs": ("failed", "failed", "failed"), "released": True}
    before, after = OpenBatch(id="b1", last=False, **failed), OpenBatch(id="b3", **failed)
    assert next_training(missing=ready, open_batches=(before, after), batch_id="b4") == StartBatch(batch_id="b4")


def test_a_canceled_batch_is_left_alone() -> None:
    canceled = OpenBatch(id="b1", runs=("canceled",))
    assert next_training(missing=ready, open_batches=(canceled,), batch_id="b2") == StartBatch(batch_id="b2")
