import pytest

from flywheel.cli.output import print_table


def test_a_table_without_rows_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("agent", "tasks"), [], empty="no agent has done anything")
    print_table(("agent", "tasks"), [])
    assert capsys.readouterr().out == "no agent has done anything\nthere is nothing to show\n"


def test_columns_are_aligned_and_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("agent", "tasks"), [("reference", 1200), ("a", 7)])
    assert capsys.readouterr().out.splitlines() == ["agent      tasks", "reference  1,200", "a              7"]
