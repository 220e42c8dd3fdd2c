"""Fields of contacts and forms are what their names say, folded lines included."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization.contacts import find_fields
from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.text import Anonymizer

CARD = (
    "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Zorblatt Trewqel\r\nN:Trewqel;Zorblatt;;;\r\nNICKNAME:zorbi\r\n"
    "ORG:Acme;Research\r\nitem1.TEL;TYPE=HOME,VOICE:5552671\r\nTEL;VALUE=uri:tel:5552672\r\n"
    "ADR;TYPE=HOME:;;Elmo 12;Ort;;12345;Land\r\nBDAY;VALUE=date:19800303\r\nPHOTO;ENCODING=b:AAAA\r\n"
    "NOTE:met in 2019\r\nEND:VCARD\r\n"
)
CLEAN_CARD = (
    "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:[PERSON_1]\r\nN:[PERSON_2];[PERSON_3];;;\r\nNICKNAME:[PERSON_4]\r\n"
    "ORG:Acme;Research\r\nitem1.TEL;TYPE=HOME,VOICE:[PHONE_NUMBER_1]\r\nTEL;VALUE=uri:tel:[PHONE_NUMBER_2]\r\n"
    "ADR;TYPE=HOME:;;[STREET_ADDRESS_1];Ort;;[ZIP_CODE_1];Land\r\nBDAY;VALUE=date:[DATE_OF_BIRTH_1]\r\n"
    "PHOTO;ENCODING=b:AAAA\r\nNOTE:met in 2019\r\nEND:VCARD\r\n"
)
PERSON = "objectClass: inetOrgPerson\n"


@pytest.mark.parametrize("line_break", ["\r\n", "\n"])
def test_a_card_keeps_what_is_no_persons(line_break: str) -> None:
    card, clean = CARD.replace("\r\n", line_break), CLEAN_CARD.replace("\r\n", line_break)
    assert Anonymizer().text(card) == clean
    assert Anonymizer().text(clean) == clean
    assert Anonymizer().value({"file": card})["file"] == clean


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["Zorb", "latt", "Trewqel"], "BEGIN:VCARD\nFN:Zorb\n latt Trewqel\nEND:VCARD"),
        (["Trewqel", "Zorblatt"], "begin:vcard\nn;charset=utf-8:Trewqel;Zorblatt;;;\nend:vcard"),
        (["Elmo 12"], "BEGIN:VCARD\nLABEL;TYPE=HOME:Elmo 12\\nOrt\nEND:VCARD"),
        (["Zorblatt"], "BEGIN:VEVENT\nATTENDEE;CN=Zorblatt Trewqel;RSVP=TRUE:mailto:z@example.org\nEND:VEVENT"),
        (["Trewqel"], 'BEGIN:VEVENT\nORGANIZER;CN="Trewqel, Zorblatt":mailto:z@example.org\nEND:VEVENT'),
        (["Zorblatt"], "BEGIN:VEVENT\nATTENDEE;RSVP=TRUE;\n CN=Zorblatt Trewqel:mailto:z@example.org\nEND:VEVENT"),
        (["Zorblatt"], "BEGIN:VEVENT\nBEGIN:VALARM\nEND:VALARM\nATTENDEE;CN=Zorblatt:mailto:z@x.org\nEND:VEVENT"),
        (["Zorblatt", "Trewqel"], f"dn: uid=zq,dc=x\n{PERSON}cn: Zorblatt Trewqel\nsn: Trewqel\n"),
        (["Zorblatt"], f"dn: cn=Zorblatt Trewqel,ou=people,dc=x\n{PERSON}"),
        (["zorbi"], f"version: 1\n\ndn: dc=x\n{PERSON}uid: zorbi\n"),
        (["5552671"], "dn: uid=zq,dc=x\ntelephoneNumber: 5552671\n"),
        (["Elmo 12"], "dn: uid=zq,dc=x\nhomePostalAddress: Elmo 12 $ Ort\n"),
        (["Wm9yYmxhdHQ"], f"dn: uid=zq,dc=x\n{PERSON}cn:: Wm9yYmxhdHQ=\n"),
        (["Zorblatt"], 'Content-Disposition: form-data; name="last_name"\r\n\r\nZorblatt\r\n--x'),
        (["Zorblatt"], 'Content-Disposition: form-data; name="nachname"\nContent-Type: text/plain\n\nZorblatt\n--x'),
        (["Zorblatt"], '<input type="text" name="last_name" value="Zorblatt">'),
        (["Zorblatt"], "<input value='Zorblatt' name=apellidos id=a>"),
    ],
)
def test_a_field_that_names_somebody_is_gone(values: list[str], text: str) -> None:
    clean = Anonymizer().text(text)
    assert not [value for value in values if value in clean]
    assert Anonymizer().text(clean) == clean


def test_phone_numbers_of_a_card_are_gone_at_the_edge() -> None:
    record = {"file": CARD}
    remove_identifiers(record)
    assert "5552671" not in record["file"]


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN:VEVENT\nUID:20240303T100000Z-42\nDTSTART:20240303T100000Z\nSUMMARY:Review of N:1\nEND:VEVENT",
        "BEGIN:VCARD\nVERSION:4.0\nORG:Acme\nTITLE:Engineer\nEND:VCARD\nFN:later\nN:1;2",
        "FN:5\nN:3;4\nTEL;x:y\nBDAY",
        "dn: cn=developers,ou=groups,dc=x\nobjectClass: groupOfNames\ncn: developers\ndescription: all\n",
        "dn: cn=config\nobjectClass: olcGlobal\ncn: config\n\ncn: later\nsn: 5",
        'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--x',
        'Content-Disposition: form-data; name="comment"\r\n\r\nhello\r\n--x',
        '<input type="text" name="q" value="search"><input name="last_name" placeholder="Last name">',
        '<input name="quantity" value="3"> last_name value="x"',
    ],
)
def test_fields_of_other_things_stay(text: str) -> None:
    assert find_spans(text) == []


@given(st.text(alphabet='BEGIN:VCARD\nFN;TEL=" dn cn[]_1<input name value>', max_size=80))
def test_fields_of_placeholders_are_left_alone(text: str) -> None:
    once = Anonymizer().text(f"BEGIN:VCARD\nFN:{text}")
    assert Anonymizer().text(once) == once


@pytest.mark.parametrize(
    "piece",
    ["BEGIN:VCARD\n", "BEGIN:VCARD\nN:", "begin:vevent\nadr:;;a;", "\ndn: a", "\ndn: cn=a,", "<input ",
     "<input name=a ", 'form-data; name="', 'form-data; name="a"\n\n', "ATTENDEE;CN=a", 'FN;x="'],
)  # fmt: skip
def test_hostile_fields_take_linear_time(piece: str) -> None:
    find_spans("Ann Lee, dob 1990-01-02")

    def seconds(size: int) -> float:
        text = "BEGIN:VCARD\n" + piece * (size // len(piece))
        started = time.process_time()
        find_spans(text)
        return time.process_time() - started

    assert seconds(320_000) < 80 * max(seconds(20_000), 0.02)


def test_a_field_too_long_for_a_value_is_not_searched() -> None:
    find_spans("Ann Lee, dob 1990-01-02")

    def seconds(letter: str) -> float:
        started = time.process_time()
        assert list(find_fields(f"dn: x\nmail: {letter * 9_000}y\nuid: {letter * 9_000}y\n", [(0, 4)])) == []
        return time.process_time() - started

    assert seconds("x") < 20 * seconds("a") + 0.2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("実行ssh ann_lee@db ls", "ann_lee"),
        ("経理sudo: ann_lee : TTY=pts/0", "ann_lee"),
        ("宛先c/o Zorblatt Trewqel", "Zorblatt Trewqel"),
        ("éuser.name = 'Zorblatt Trewqel'", "Zorblatt Trewqel"),
        ("実行mysql -u root -pHunter2x", "Hunter2x"),
    ],
)
def test_what_gives_a_value_away_may_stand_behind_a_letter_outside_ascii(text: str, value: str) -> None:
    assert [text[span.start : span.end] for span in find_spans(text)] == [value]
