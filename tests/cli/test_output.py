import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from flywheel.cli.output import print_mapping, print_table

VERDICT = "95.5% exact against 0.0% on 200 held-out tasks, and no task type is significantly worse"
PRINT = f"""
from flywheel.cli.output import print_table
print_table(("agent", "tasks", "verdict"), [("flywheel-agent-v2", 14688, {VERDICT!r}), ("scratch", 7, "")])
"""


def test_a_table_without_rows_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("agent", "tasks"), [], empty="no agent has done anything")
    print_table(("agent", "tasks"), [])
    assert capsys.readouterr().out == "no agent has done anything\nthere is nothing to show\n"


def test_columns_are_aligned_and_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("agent", "tasks"), [("reference", 1200), ("a", 7)])
    assert capsys.readouterr().out.splitlines() == ["agent      tasks", "reference  1,200", "a              7"]


def test_what_looks_like_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("task", "why"), [("[/PATH]/[red]x", "[bold]no[/bold] way")])
    assert capsys.readouterr().out.splitlines()[1].split("  ") == ["[/PATH]/[red]x", "[bold]no[/bold] way"]


def test_what_would_give_a_terminal_orders_is_shown_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("task", "why"), [("a\x1b[2Jb", ["\x9b31m\r"])])
    print_mapping({"task": "\x1b]0;title\x07"})
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split() == [r"a\x1b[2Jb", r"\x9b31m\x0d"]
    assert shown[2] == r"task  \x1b]0;title\x07"


def test_a_word_that_is_longer_than_its_column_is_folded_and_not_cut() -> None:
    digest = "0123456789abcdef" * 4
    row = ("a name that takes room", f"signed with {digest} by the arbiter")
    lines = on_a_terminal(
        f"from flywheel.cli.output import print_table; print_table(('agent', 'says'), [{row!r}])", width=50
    )
    assert digest in "".join(line[24:].strip() for line in lines[1:])


@pytest.mark.parametrize("width", [30, 60, 200])
def test_on_a_narrow_screen_sentences_are_folded_and_names_and_figures_are_not(width: int) -> None:
    _, first, *others = on_a_terminal(PRINT, width=width)
    assert first.startswith("flywheel-agent-v2  14,688  95.5% exact against")
    folded = [line for line in others if not line.startswith("scratch")]
    assert " ".join(line[27:].strip() for line in (first, *folded)) == VERDICT
    assert bool(folded) == (width < 100)


def test_no_line_is_wider_than_a_screen_that_has_just_enough_room() -> None:
    program = f"from flywheel.cli.output import print_table; print_table(('agent', 'says'), [('a', {VERDICT!r})])"
    width = len("agent") + 2 + 20
    assert max(map(len, on_a_terminal(program, width=width))) == width


def on_a_terminal(program: str, *, width: int) -> list[str]:
    """What a program prints on a terminal of so many columns, without its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "NO_COLOR"}}
    process = subprocess.Popen([sys.executable, "-c", program], stdout=theirs, env={**environment, "TERM": "xterm"})
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 4096):
            printed += piece
    except OSError:  # Linux says so where the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.decode()).splitlines()
