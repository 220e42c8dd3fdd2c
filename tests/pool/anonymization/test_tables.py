"""Cells of a table are what the header says, as values are what their keys say."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization import tables
from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.text import Anonymizer

ROW = ("Zorblatt Quux", "4155552671", "078051120")
COLUMNS = ("Customer", "phone", "SSN")


def divided(delimiter: str) -> str:
    """The table, its cells divided by this."""
    return "".join(f"{delimiter.join(cells)}\n" for cells in (COLUMNS, ROW))


LAYOUTS = {
    "CSV": divided(","),
    "CSV in German": "Kunde;Telefon;SSN\n" + ";".join(ROW),
    "quoted CSV": divided('","').replace("\n", '"\n"').join('""')[:-1],
    "TSV": divided("\t"),
    "Markdown": "| Customer | phone | SSN |\n|---|:--|---|\n| Zorblatt Quux | 4155552671 | 078051120 |\n",
    "Markdown without outer bars": "Customer | phone | SSN\n--- | --- | ---\nZorblatt Quux | 4155552671 | 078051120",
    "a database's": " customer | phone      | ssn\n"
    + "-" * 15
    + "+--+--\n Zorblatt Quux | 4155552671 | 078051120\n(1 row)",
    "a grid": "+---+---+\n| customer | phone | ssn |\n+---+---+\n| Zorblatt Quux | 4155552671 | 078051120 |\n+---+",
    "a diff": "@@ -0,0 +1,2 @@\n" + "".join(f"+{line}\n" for line in divided(",").splitlines()),
    "a numbered file": "".join(f"     {number}\t{line}\n" for number, line in enumerate(divided(",").splitlines(), 1)),
    "a string of JSON": json.dumps({"status": "ok", "content": divided(",")}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cells_of_columns_that_name_persons_and_numbers_are_gone(layout: str) -> None:
    clean = Anonymizer().text(LAYOUTS[layout])
    assert not [value for value in ROW if value in clean]
    if layout == "a string of JSON":
        assert json.loads(clean)["content"] == "Customer,phone,SSN\n[PERSON_1],[PHONE_NUMBER_1],[US_SSN_1]\n"


def test_a_table_keeps_all_else() -> None:
    table = "id,first_name,password,city\n1,Zorblatt,hunter,Berlin\n2,,,Rome\n\nas said\n"
    clean = table.replace("Zorblatt", "[PERSON_1]").replace("hunter", "[SECRET_1]")
    assert Anonymizer().text(table) == clean


def test_quoted_cells_may_hold_delimiters_and_line_breaks() -> None:
    table = 'name,address,email\n"Quux, Zorblatt","Elmo 12,\nOrt",z@example.org\nBelqis,"Way ""B"" 5",b@example.org\n'
    clean = Anonymizer().text(table)
    assert not [value for value in ("Quux", "Zorblatt", "Elmo", "Belqis", "Way") if value in clean]
    assert clean.count(",") == 6


def test_a_cell_is_found_in_the_rest_of_the_record() -> None:
    record = {"rows": "first_name,ssn\nZorblatt,078051120\n", "said": "Zorblatt gave 078051120"}
    assert Anonymizer().value(record)["said"] == "[PERSON_1] gave [US_SSN_1]"


def test_numbers_and_passwords_of_tables_are_gone_at_the_edge() -> None:
    record = {"text": "user,password,phone\nann,hunter,4155552671\n"}
    remove_identifiers(record)
    assert record == {"text": "user,password,phone\nann,[SECRET_1],[PHONE_NUMBER_1]\n"}


@pytest.mark.parametrize(
    "text",
    [
        "name,score\nAlpha,5\nBeta,6\n",
        "| Name | Score |\n|---|---|\n| Alpha | 5 |\n",
        "| Field | email | phone |\n|---|---|---|\n| type | string | string |\n",
        "def f(name, email, phone):\n    return name, email, phone\n",
        "    username, password,\n    foo, bar,\n",
        "from x import username, password\nfoo, bar = 1, 2\n",
        "| user_id | movie_id |\n|---|---|\n| 1 | 31 |\n",
        "| address | size |\n|---|---|\n| 0x4005d0 | 12 |\n",
        "name | type\n--- | ---\nid | int\n",
        "customer,orders\n17,4\n",
        "token,count\nhello,5\n",
        "suite,pass,fail\nunit,many,none\n",
        "my name, email and phone\nare not, what you, think\n",
        "product,item_id,price\nT-Shirt,4127323219,25.5\n",
        "run,user,tokens\n550e8400-e29b-41d4-a716-446655440000,agent,512\n",
    ],
)
def test_tables_of_other_things_and_lists_in_code_stay(text: str) -> None:
    assert find_spans(text) == []


@given(st.text(alphabet='name,email\n"|;\tAnn 1-+\0', max_size=60))
def test_a_table_of_placeholders_is_left_alone(text: str) -> None:
    once = Anonymizer().text(text)
    assert Anonymizer().text(once) == once


@pytest.mark.parametrize(
    "piece",
    ["name,email\n", "name,email\nA,b\n", '"', '"name",', "| name ", "name|ssn\n", 'ssn,name\n"x,', "name ", ': "'],
)
def test_hostile_tables_take_linear_time(piece: str) -> None:
    find_spans("Ann Lee, dob 1990-01-02")

    def seconds(size: int) -> float:
        text = "name,email,phone\n" + piece * (size // len(piece))
        started = time.process_time()
        find_spans(text)
        return time.process_time() - started

    assert seconds(320_000) < 80 * max(seconds(20_000), 0.02)


def test_a_line_of_many_names_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tables.Header] = []

    def counted(text: str, header: tables.Header) -> tables.Table | None:
        read.append(header)
        return table_at(text, header)

    table_at = tables.table_at
    monkeypatch.setattr(tables, "table_at", counted)
    assert find_spans(("name," * 390 + "\n") * 3) == []
    assert 0 < len(read) <= 3
