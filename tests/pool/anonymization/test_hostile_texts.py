"""Files, logs and letters as agents read them: what stands between the brackets of the list is gone."""

import re
from pathlib import Path

import pytest

from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.text import Anonymizer

LISTED = Path(__file__).with_name("hostile_texts.txt").read_text(encoding="utf-8").splitlines()
TEXTS = [line for line in LISTED if not line.startswith("# ")]
VALUE = re.compile("⟦(.*?)⟧", re.DOTALL)
RANDOM = "AbCd1234" * 5
HEX = "0123456789abcdef"


def written(line: str) -> str:
    """A line of the list as the text that it stands for: ``\\n`` and ``\\t`` are what they say."""
    return re.sub(r"(?<!\\)\\([nt])", lambda escape: {"n": "\n", "t": "\t"}[escape[1]], line)


@pytest.mark.parametrize("line", TEXTS)
def test_nothing_between_the_brackets_is_left_and_a_second_pass_changes_nothing(line: str) -> None:
    text = written(line)
    clean = Anonymizer().text(re.sub("[⟦⟧]", "", text))
    assert [value for value in VALUE.findall(text) if value in clean] == []
    assert Anonymizer().text(clean) == clean


@pytest.mark.parametrize(
    ("prefix", "rest"),
    [
        *((prefix, RANDOM) for prefix in ("gsk_", "xai-", "pplx-", "r8_", "nvapi-", "dckr_pat_", "GOCSPX-", "glsa_")),
        *((prefix, RANDOM) for prefix in ("NRAK-", "ATATT3xFf", "figd_", "sbp_", "ntn_", "rubygems_", "pscale_tkn_")),
        *((prefix, RANDOM) for prefix in ("CFPAT-", "doo_v1_", "hvb.", "EZAK", "LTAI", "rzp_live_", "secret_")),
        *((prefix, HEX * 2) for prefix in ("SK", "AC", "dapi", "key-")),
        ("patAbCdEfGhIjKlMn.", HEX * 4),
    ],
)
def test_keys_of_vendors_are_gone_in_the_pool_and_at_the_edge(prefix: str, rest: str) -> None:
    key = prefix + rest
    record = {"said": f"use {key} for it"}
    remove_identifiers(record)
    assert record == {"said": "use [SECRET_1] for it"}
    assert Anonymizer().text(f"use {key} for it") == "use [SECRET_1] for it"


@pytest.mark.parametrize(
    "text",
    [
        "xai-grok3-mini-whole-high and gl-headers-2024-for-everyone",
        "Hotel Name: Zorblatt Trewqel\nRating: 4.8\nAddress: x",
        "Restaurant Name: Le Baratin\nPrice: 50",
        '{"name": "Zorblatt", "version": "1.2.3"}',
        '{"name": "get_user_details", "email": null}',
        "Recipient: the whole team",
        "_FName: TypeAlias = str",
        '<span class="firstname">v1.11.1</span>',
        "npm config set key value, SecureString GetKey(const std::string& key)",
        "-rw-r--r-- 1 root root 12 Jan  1 10:00 x.py\ndrwxr-xr-x 2 ubuntu ubuntu 4096 Jan 1 10:00 app",
        "root@web1:~# ls\nubuntu@ip-10:~$ ls",
        "uid=0(root) gid=0(root)",
        "in 10000 London homes, 12300 Paris, 2024 Berlin",
        "RFC 2822 and rfc2616, pin 1234567, error code 4711, tan 45",
        "text 5 lines, reach me, my number is 5",
        "echo done | docker build .",
        '{"employee_no": 4.25, "account_number": 1.5}',
        "author Zorblatt of the paper wrote:",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert find_spans(text) == []
