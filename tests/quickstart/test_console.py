import io
import re

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


def drawn(width: int, message: str, *, total: int | None = None) -> str:
    output = io.StringIO()
    display = TerminalDisplay(Console(file=output, force_terminal=True, width=width, color_system=None))
    with display.stage("supervised fine-tuning") as line:
        line.update(done=0 if total else None, total=total, message=message)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.getvalue().rsplit("\r", 1)[-1])


def test_a_stage_that_counts_nothing_shows_no_figures() -> None:
    assert "/" not in drawn(120, "PostgreSQL")
    assert "220/220" in drawn(120, "loss 0.04", total=220)


def test_what_a_stage_says_is_wrapped_and_never_cuts_its_title() -> None:
    message = (
        "0 of 300 new points with quality of at least 0.3 for SFT; 0 of 3 task types for SFT; 0 of 1 agents for SFT"
    )
    for width in (60, 80, 100, 120):
        lines = drawn(width, message).splitlines()
        assert any("supervised fine-tuning" in line for line in lines)
        assert "…" not in "".join(lines)
        assert max(map(len, lines)) <= width


def test_what_a_stage_says_is_text_and_no_markup() -> None:
    assert "[red]closed [/tmp/x]" in drawn(120, "[red]closed [/tmp/x]")
    output = io.StringIO()
    TerminalDisplay(Console(file=output, force_terminal=True, width=120, color_system=None)).say("the home [/tmp/x]")
    assert output.getvalue() == "the home [/tmp/x]\n"


def test_where_there_is_no_terminal_there_are_no_bars() -> None:
    assert isinstance(display_for(Console(file=io.StringIO())), PlainDisplay)
    assert isinstance(display_for(Console(file=io.StringIO(), force_terminal=True)), TerminalDisplay)
