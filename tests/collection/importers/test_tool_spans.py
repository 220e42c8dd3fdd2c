from flywheel.collection.importers.interface import ToolTally
from flywheel.collection.importers.tool_spans import ToolSpan, first_action_ms, tallied


def span(name: str = "search", **fields: float | bool | None) -> ToolSpan:
    return ToolSpan(**{"name": name, "failed": False, "after_ms": 5.0, "took_ms": 2.0, **fields})  # type: ignore[arg-type]


def test_calls_are_counted_by_their_tools() -> None:
    found = tallied([span(), span("book"), span(failed=True, took_ms=4.0)])
    assert found == {
        "search": ToolTally(calls=2, failures=1, average_latency_ms=3.0),
        "book": ToolTally(calls=1, failures=0, average_latency_ms=2.0),
    }
    assert tallied([]) == {}


def test_a_call_without_times_leaves_its_tool_without_a_mean_and_the_run_without_a_first_action() -> None:
    spans = [span(), span(after_ms=None, took_ms=None), span("book", took_ms=0.0)]
    assert [tally.average_latency_ms for tally in tallied(spans).values()] == [None, 0.0]
    assert first_action_ms(spans, latency_ms=9.0) is None


def test_the_first_action_is_the_earliest_call() -> None:
    assert first_action_ms([span(), span(after_ms=0.0)], latency_ms=9.0) == 0.0
    assert first_action_ms([span()], latency_ms=None) == 5.0
    assert first_action_ms([], latency_ms=9.0) is None


def test_a_first_action_behind_the_end_of_the_run_is_not_known() -> None:
    assert first_action_ms([span()], latency_ms=5.0) == 5.0
    assert first_action_ms([span(after_ms=5.4)], latency_ms=5.0) is None
