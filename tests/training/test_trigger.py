"""When training starts, and what it says when it does not."""

from flywheel.training.trigger import OpenBatch, ResumeBatch, StartBatch, Wait, next_training


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


def test_a_batch_that_failed_three_times_is_given_up() -> None:
    hopeless = OpenBatch(id="b1", runs=("failed", "failed", "failed"))
    assert next_training(missing=ready, open_batches=(hopeless,), batch_id="b2") == StartBatch(batch_id="b2")


def test_a_canceled_batch_is_left_alone() -> None:
    canceled = OpenBatch(id="b1", runs=("canceled",))
    assert next_training(missing=ready, open_batches=(canceled,), batch_id="b2") == StartBatch(batch_id="b2")
