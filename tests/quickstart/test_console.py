import io

from rich.console import Console

from flywheel.quickstart.console import PlainDisplay, TerminalDisplay, display_for


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pipe_gets_plain_lines_now_and_then() -> None:
    output, clock = io.StringIO(), Clock()
    display = PlainDisplay(Console(file=output), clock=clock)
    with display.stage("tasks before") as line:
        for second in range(32):
            clock.now = second
            line.update(done=second, total=40)
        line.update(message="440 tasks")
    assert output.getvalue().splitlines() == [
        "tasks before ...",
        "  tasks before: 15/40",
        "  tasks before: 30/40",
        "tasks before: done in 31 s (440 tasks)",
    ]


def test_a_terminal_gets_a_bar_that_ends_full() -> None:
    output = io.StringIO()
    display = TerminalDisplay(Console(file=output, force_terminal=True, width=120))
    with display.stage("tasks before") as line:
        line.update(done=3, total=40, message="smollm2")
    last = [line for line in output.getvalue().splitlines() if "tasks before" in line][-1]
    assert "✓" in last
    assert "40/40" in last
    assert "smollm2" in last


def test_where_there_is_no_terminal_there_are_no_bars() -> None:
    assert isinstance(display_for(Console(file=io.StringIO())), PlainDisplay)
    assert isinstance(display_for(Console(file=io.StringIO(), force_terminal=True)), TerminalDisplay)
