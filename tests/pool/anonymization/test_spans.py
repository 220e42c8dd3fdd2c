"""What is personal or secret is found where it is, however it is written and wherever it nests."""

import base64
import json
import time
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.pool.anonymization.canaries import CANARIES, TELLING
from flywheel.pool.anonymization.spans import find_each, find_spans
from flywheel.pool.anonymization.text import Anonymizer

NESTINGS: dict[str, Callable[[str], str]] = {
    "prose": lambda value: f"As I said, {value} it is.",
    "quotes": "'{}'".format,
    "markdown": lambda value: f"- **Value:** {value}\n- next",
    "table": lambda value: f"| 1 | {value} | 2 |",
    "json": lambda value: json.dumps({"content": f"it is {value}"}),
    "json in json": lambda value: json.dumps({"content": json.dumps({"inner": value})}),
    "json in json in json": lambda value: json.dumps([json.dumps([json.dumps([value])])]),
    "escaped letters": lambda value: '{"a": "' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"}',
    "a line of JSON": lambda value: "first\n" + json.dumps({"a": value, "b": 'quoted "x"'}) + "\nlast",
    "python": "print({!r})".format,
    "diff": lambda value: f"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+{value}\n",
    "url": lambda value: f"https://example.org/find?q={quote(value, safe='')}&page=2",
    "base64": lambda value: base64.b64encode(f"it is {value} indeed".encode()).decode(),
    "yaml": "items:\n  - {}\n".format,
    "html": "<td>{}</td>".format,
}
WIDE = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}
DISGUISES: dict[str, Callable[[str], str]] = {
    "full width digits": lambda value: value.translate(WIDE),
    "zero width spaces": "\u200b".join,
    "soft hyphens": lambda value: value[:4] + "\u00ad" + value[4:],
    "non-breaking": lambda value: value.replace(" ", "\u202f").replace("-", "\u2011"),
    "combining marks": "\u0301".join,
    "Cyrillic letters": lambda value: value.replace("a", "а").replace("e", "е").replace("o", "о"),
}


@pytest.mark.parametrize("kind", CANARIES)
@pytest.mark.parametrize("nesting", NESTINGS)
def test_no_canary_survives_any_nesting(kind: str, nesting: str) -> None:
    clean = Anonymizer().text(NESTINGS[nesting](CANARIES[kind]))
    decoded = clean
    if nesting == "base64":
        assert "[" in clean
        return
    for _ in range(3):
        decoded = decoded.replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n")
    assert TELLING[kind] not in decoded
    assert quote(TELLING[kind], safe="") not in decoded


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("kind", ["EMAIL_ADDRESS", "CREDIT_CARD", "US_SSN", "PHONE_NUMBER", "OPENAI_KEY", "PERSON"])
def test_no_way_of_writing_hides_a_value(kind: str, disguise: str) -> None:
    hidden = DISGUISES[disguise](CANARIES[kind])
    text = f"see {hidden} there"
    (span,) = find_spans(text)
    assert (span.start, span.end) == (4, 4 + len(hidden))


@pytest.mark.parametrize("key", ["content", "note"])
def test_json_stays_json_where_a_number_is_replaced(key: str) -> None:
    record = {key: "x", "phone": 4155552671, "zip": 94103, "deep": json.dumps({"user_id": 77123456, "n": 5})}
    clean = json.loads(Anonymizer().text(json.dumps(record)))
    assert clean["phone"] == "[PHONE_NUMBER_1]"
    assert clean["zip"] == "[ZIP_CODE_1]"
    assert json.loads(clean["deep"]) == {"user_id": "[USER_ID_1]", "n": 5}


LEAVES = (
    st.sampled_from(
        [*CANARIES.values(), 4111111111111111, 4155552671, "/home/ann/caf\u00e9.txt", "C:\\Users\\ann\\x.py"]
    )
    | st.integers()
    | st.booleans()
    | st.none()
    | st.text(max_size=20)
    | st.sampled_from(["C:\\Users\\ann\\x.py", "http://h:1", "x@y.org", "a\\b", 'say "hi"', "1,2"])
)
KEYS = st.sampled_from(["phone", "cards", "uid", "zip", "password", "a", "path", "user_id", "name"])


NESTED = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@given(st.dictionaries(KEYS, NESTED) | st.lists(NESTED))
@example({"cards": [4111111111111111, 5]})
@example({"p": "/home/ann/caf\u00e9.txt"})
@example({"a": {"u": "http://h:1"}, "b": ["x@y.org"]})
@example([["x@y.org"], [4111111111111111]])
@example([4111111111111111, 5])
@example(['5" disk', [4111111111111111]])
@example(["a\\", [4111111111111111]])
def test_json_stays_json_whatever_is_replaced_in_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2)):
        assert shape_of(json.loads(Anonymizer().text(text))) == shape_of(value)
    for indent in (None, 2):
        quoted = json.loads(Anonymizer().text(json.dumps({"inner": json.dumps(value, indent=indent)})))
        assert list(quoted) == ["inner"]
        assert shape_of(json.loads(quoted["inner"])) == shape_of(value)


def shape_of(value: object) -> object:
    """What replacing leaves as it is: containers with as many parts; a number may become the text of a placeholder."""
    if isinstance(value, dict):
        return [dict, *map(shape_of, value.values())]
    if isinstance(value, list):
        return [list, *map(shape_of, value)]
    return value if value is None or isinstance(value, bool) else "a text or number"


def test_values_of_two_passes_keep_placeholders_of_their_own() -> None:
    first = Anonymizer().value({"a": "ann@example.org"})
    assert Anonymizer().value([first, "bob@example.org"]) == [{"a": "[EMAIL_ADDRESS_1]"}, "[EMAIL_ADDRESS_2]"]


def test_a_name_in_code_is_not_the_person_of_the_prose() -> None:
    assert (
        Anonymizer().text("Martin Lee wrote it. class Martin(Base): pass")
        == "[PERSON_1] wrote it. class Martin(Base): pass"
    )


def test_a_name_as_a_key_is_the_same_person_as_in_the_text() -> None:
    assert Anonymizer().value({"x": {"Sarah": 1}, "t": "Sarah"}) == {"x": {"[PERSON_1]": 1}, "t": "[PERSON_1]"}


def test_what_a_key_names_is_found_everywhere_in_the_record() -> None:
    record = {
        "customer": {"first_name": "Zorblatt", "last_name": "Quorvik", "dob": "1984-07-29"},
        "messages": ["Thanks Zorblatt. Born July 29, 1984, is that right?", '{"who": "Quorvik"}'],
    }
    clean = json.dumps(Anonymizer().value(record))
    assert "Zorblatt" not in clean
    assert "Quorvik" not in clean
    assert "July 29" not in clean


def test_keys_and_bare_numbers_of_a_record_are_values_too() -> None:
    clean = Anonymizer().value({"methods": {"paypal_7529813": {"balance": 12}}, "phone": 4155552671, "n": 4155552671})
    assert clean == {"methods": {"[PAYMENT_ID_1]": {"balance": 12}}, "phone": "[PHONE_NUMBER_1]", "n": 4155552671}


@pytest.mark.parametrize(
    "text",
    [
        "order #W2166301 and reservation 4WQ150",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8, sha256 " + "0f" * 32,
        "550e8400-e29b-41d4-a716-446655440000",
        "pip install torch==2.13.0, python 3.11.7, v1.2.3.4",
        "loss 0.138, accuracy 0.9123, 1,024 tokens in 300 ms at 2026-11-21T20:54:06Z",
        "def first_name(self) -> str: return self.password",
        'password = os.environ["DB_PASSWORD"]',
        '{"type": "object", "properties": {"first_name": {"type": "string"}, "email": {"type": "string"}}}',
        "The New York office and San Francisco are in the United States. Will you come in May?",
        "flight HAT201 on 2024-05-22, $173, seat 12A, gate B4",
        "test_run_001 and data_set_2024 passed",
        "aspect ratio 16:9, at 12:34:56",
        "self.password = password; login(password=password); const password = req.body.password;",
        "zip(a, b); range(10000, 20000)",
        "x[::2], y[1::2], a::b(), std::vector",
        "pip install torch==1.2.3.4",
        "lodash@4.17.21 @types/node@18.0.0 actions/checkout@v4.1.0",
        '{"timeout": 1000, "limit": 5000, "gid": 1000}',
        "tokenizer_class: Qwen2TokenizerFast, eos_token_id=128009, max_tokens: 4096",
        "sk-learn-contrib-packages-list",
        '{"$ref": "#/definitions/Address"}',
        "GET /api/v1/users 2>/dev/null",
        "@@ -1,3 +1000000,3 @@\n+123456789,foo",
        "the Adam optimizer, Travis CI, Thompson sampling, assert x is True",
        "16 GB of RAM, slot M2 8GB",
        '{"errors": {"password": "This field is required", "address": "is required"}}',
    ],
)
def test_what_is_neither_personal_nor_secret_stays(text: str) -> None:
    assert find_spans(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("call +447700900123", "+447700900123"),
        ("call +91 98765 43210 now", "+91 98765 43210"),
        ("(415) 555 2671", "(415) 555 2671"),
        ("from 10.0.0.1:8080", "10.0.0.1"),
        ("phone_number: 4155552671", "4155552671"),
        ("social_security_number=078051120", "078051120"),
        ("https://example.org/?phone_number=4155552671&x=1", "4155552671"),
        ("date_of_birth: 1990-01-02", "1990-01-02"),
        ("first_name: Zorblatt", "Zorblatt"),
        ("first_name='Zorblatt'", "Zorblatt"),
        ("PATH=/bin:/home/ann/x", "/home/ann/x"),
        ("file:///home/ann/x.py", "file:///home/ann/x.py"),
        ("C:\\Users\\Ann Lee\\doc.txt", "C:\\Users\\Ann Lee\\doc.txt"),
        ("DB_PASSWORD='pa*ss12word'", "pa*ss12word"),
        ('password: "ab,cd12!"', "ab,cd12!"),
        ('Result: {"m": "Hello,\\nSarah Miller\\n415-555-2671"}', "Sarah Miller"),
        ('data: {"m": "\\tann@example.org"}', "ann@example.org"),
        ('print("Dear\\nJohn Smith")', "John Smith"),
    ],
)
def test_values_are_found_as_people_write_them(text: str, value: str) -> None:
    assert value in [text[span.start : span.end] for span in find_spans(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Thank you, Noah Ito. Will do.", ["Noah Ito"]),
        ("Passengers: Mei Lee and Daiki Li (Phoenix, AZ)", ["Mei Lee", "Daiki Li"]),
        ("Mark Johnson met Anne-Marie O'Neil", ["Mark Johnson", "Anne-Marie O'Neil"]),
        ("my name is lei wilson", ["lei wilson"]),
        ("Dear Dr. Zorblatt, hello", ["Zorblatt"]),
        ("Omar's bag", ["Omar"]),
        ("Have a great day, Omar!", ["Omar"]),
    ],
)
def test_persons_are_found_by_their_names(text: str, found: list[str]) -> None:
    assert [text[span.start : span.end] for span in find_spans(text) if span.type == "PERSON"] == found


@pytest.mark.parametrize(
    "text",
    [
        'From: Zorblatt Quux <z@example.org>\nTo: "Zorblatt Quux" <z@example.org>, Belqis <b@example.org>',
        "Author: Zorblatt Quux <z@example.org>\n\n    Co-authored-by: Belqis <b@example.org>",
        "From: Zorblatt Quux <[EMAIL_ADDRESS_1]>\nCc: Belqis <[EMAIL_ADDRESS_2]>",
    ],
)
def test_names_before_addresses_of_mail_are_persons(text: str) -> None:
    clean = Anonymizer().text(text)
    assert not [name for name in ("Zorblatt", "Quux", "Belqis") if name in clean]
    assert Anonymizer().text(clean) == clean


@pytest.mark.parametrize("text", ["write to Support <%s>", "From: Support Team <%s>", "List<%s>", "see <%s>"])
def test_words_before_addresses_of_mail_stay(text: str) -> None:
    assert Anonymizer().text(text % "a@example.org") == text % "[EMAIL_ADDRESS_1]"


@given(st.text(), st.sampled_from(sorted(CANARIES)), st.text())
@example("\ud83d", "EMAIL_ADDRESS", "\x00")
@example("%", "PHONE_NUMBER", "\u0301\u200b")
@example("v", "IP_ADDRESS", "")
def test_offsets_are_right_under_any_unicode(before: str, kind: str, after: str) -> None:
    text = f"{before}\n{CANARIES[kind]}\n{after}"
    spans = find_spans(text)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(left.end <= right.start for left, right in pairwise(spans))
    begin = len(before) + 1 + CANARIES[kind].index(TELLING[kind])
    covered = {place for span in spans for place in range(span.start, span.end)}
    assert set(range(begin, begin + len(TELLING[kind]))) <= covered


@given(st.lists(st.text()))
def test_texts_of_a_record_are_found_as_each_by_itself_or_more(texts: list[str]) -> None:
    together = find_each(texts)
    for text, spans in zip(texts, together, strict=True):
        covered = {place for span in spans for place in range(span.start, span.end)}
        alone = {place for span in find_spans(text) for place in range(span.start, span.end)}
        assert alone <= covered


MESSY = r"([A-Z][a-z]{1,6} ?|[0-9]{1,4}[-. /:]|\\u00[0-9a-f]{2}|\"|@|%40|\{|\})+"


@given(st.text() | st.from_regex(MESSY, fullmatch=True))
def test_anonymizing_is_deterministic_and_idempotent(text: str) -> None:
    once = Anonymizer().text(text)
    assert Anonymizer().text(text) == once
    assert Anonymizer().text(once) == once


HOSTILE = (
    "/a", "1 ", "a@", "1.", "-----BEGIN PRIVATE KEY-----", "Ann Lee ", '"name": ', '\\"', '{"a":"', "%40", "4111 1111 ",
    "a_b_1 ", "password=", "1-", "é", "[", "dob 1", "zip 12345 ", "My name is ", "user id: ", "0123456789", "aa:",
    "Ab1+/", "./", "é/", "1/foo/aaaa", "a/home/b", "+/api/v1", "[/api/x", "x/home/~",
    "name: A", "Patient: A b ", "recipient: Ann Lee ", "</td>", "</td><td>", ' "value":', "uid=1(",
    ":x:1:2:", "sudo: a",
    "ssh a ", "-rw-r--r-- 1 a a ", "@a:~", "user\n", " wrote:\n", "10115 Berlin", "Am Markt 3, ", "12 345 Ab ", "A-12 ",
    "otp 1", "rut 1.2-", "P<ABCDE<<", "gsk_", "Private-Lines: 1\n", "市区", "路1", "我叫", "京大路1号",
    "东市中1-1", "\\u0041", "\\x41",
    "echo a |",
    "config set ", "zip -a ", "htpasswd -b a ", "7z a ", "пароль: ", "+/a[/b",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    find_spans("Ann Lee, dob 1990-01-02")  # the automaton and the names are there
    small, large = ((piece * (size // len(piece) + 1))[:size] for size in (20_000, 320_000))

    def seconds(text: str) -> float:
        started = time.process_time()
        find_spans(text)
        return time.process_time() - started

    assert seconds(large) < 80 * max(seconds(small), 0.02)  # sixteen times as long, and noise; quadratic were 256


def test_ten_megabytes_are_no_trouble() -> None:
    text = ("He said 1. 2 - 3: aa:bb Ann /x/y " * 330_000)[:10_000_000] + " canary.bird@example.org"
    assert find_spans(text)[-1].end == len(text)


def test_a_form_that_begins_at_the_end_of_a_word_is_found() -> None:
    text = "What is the limit for card 501864667909?"  # the form begins with the space before "card"
    assert [(text[span.start : span.end], span.type) for span in find_spans(text)] == [("501864667909", "CREDIT_CARD")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/app/main.py", ["/srv/app/main.py"]),
        ("in /srv/app/main.py, line 3", ["/srv/app/main.py"]),
        ("see ./srv/app/main.py and and/or/not", []),
        ("https://example.org/srv/app", []),
        ("x~/app/main.py", ["/app/main.py"]),
        ("~/app/main.py", ["~/app/main.py"]),
        ("//home/ann/x", ["/home/ann/x"]),
        ("C:/Users/ann/x and file:///home/ann/y", ["C:/Users/ann/x", "file:///home/ann/y"]),
        ("xC:/Users/ann/x", ["/Users/ann/x"]),
        ("x/home/ann", []),
        ("C:\\data\\in;/home/ann/x", ["C:\\data\\in;", "/home/ann/x"]),
        ("ann@example.org /srv/app/x", ["ann@example.org", "/srv/app/x"]),
    ],
)
def test_a_path_begins_where_no_word_or_link_goes_on(text: str, expected: list[str]) -> None:
    assert [text[span.start : span.end] for span in find_spans(text)] == expected
