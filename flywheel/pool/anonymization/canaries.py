"""Values that must not come out of anonymizing, in every field of a point: tried with the policies in force.

The privacy check sends them through before a day may pass. It knows them letter by letter, so no pattern is asked twice
whether it finds what it finds. Secrets are put together here, so that no scanner takes them for a leak.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import inspect

from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.points import KEPT_WITHIN, anonymize
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.anonymization.violations import strings
from flywheel.records import DataPoint

AT = datetime(2026, 1, 1, tzinfo=UTC)

CANARIES: dict[str, str] = {
    "EMAIL_ADDRESS": "canary.bird@example.org",
    "PHONE_NUMBER": "+44 20 7946 0958",
    "CREDIT_CARD": "4111 1111 1111 1111",
    "IBAN_CODE": "DE89 3704 0044 0532 0130 00",
    "US_SSN": "078-05-1120",
    "IT_FISCAL_CODE": "RSSMRA85T10A562S",
    "ES_NIF": "12345678Z",
    "ES_NIE": "X2482300W",
    "UK_NINO": "AB 12 34 56 C",
    "UK_NHS": "NHS number 943 476 5870",
    "FI_PERSONAL_IDENTITY_CODE": "131052-308T",
    "SE_PERSONNUMMER": "880320-0016",
    "FR_NIR": "2 95 10 99 126 111 93",
    "NL_BSN": "BSN 111222333",
    "PL_PESEL": "PESEL 44051401359",
    "BR_CPF": "390.533.447-05",
    "CA_SIN": "SIN 123-456-782",
    "IN_AADHAAR": "2341 2341 2346",
    "IN_PAN": "PAN ACUPA7085R",
    "KR_RRN": "971013-1019901",
    "CN_RESIDENT_ID": "360426199101010071",
    "AU_TFN": "TFN 123 456 782",
    "US_PASSPORT": "passport number 512345678",
    "US_DRIVER_LICENSE": "driver's license D1234567",
    "NATIONAL_ID": '{"national_id": "X4471902"}',
    "BANK_ACCOUNT": "account number 12345678901",
    "IP_ADDRESS": "203.0.113.77",
    "IPV6": "2001:db8::8a2e:370:7334",
    "CH_AHV": "756.9217.0769.85",
    "ONE_TIME_CODE": "verification code 482913",
    "MAC_ADDRESS": "00:1B:44:11:3A:B7",
    "URL_CREDENTIALS": "postgresql://canary:" + "hunter2@db.example/x",
    "OPENAI_KEY": "sk-" + "proj-" + "Ab12" * 6,
    "AWS_KEY": "AKIA" + "ABCDEFGHIJKLMNOP",
    "GITHUB_TOKEN": "ghp_" + "a1B2" * 9,
    "SLACK_TOKEN": "xoxb-" + "1234567890-abcdefghij",
    "JWT": "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".SflKxwRJSMeK",
    "PRIVATE_KEY": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEow\n-----END RSA PRIVATE " + "KEY-----",
    "API_KEY": 'api_key = "' + "q7Rt2Zx9Lk4Vb8" + '"',
    "PASSWORD": "password is " + "hunter22",
    "DATE_OF_BIRTH": "date of birth: 1984-07-29",
    "PERSON": "Yusuf Hernandez",
    "STREET_ADDRESS": "476 Maple Drive, Suite 432",
    "ZIP_CODE": "zip code 94117",
    "USER_ID": "yusuf_hernandez_6785",
    "PAYMENT_ID": "gift_card_7480005",
    "HOME": "/home/canary/secret/plan.txt",
}

TELLING: dict[str, str] = {
    **CANARIES,
    "API_KEY": "q7Rt2Zx9Lk4Vb8",
    "PASSWORD": "hunter22",
    "DATE_OF_BIRTH": "1984-07-29",
    "UK_NHS": "943 476 5870",
    "NL_BSN": "111222333",
    "PL_PESEL": "44051401359",
    "CA_SIN": "123-456-782",
    "IN_PAN": "ACUPA7085R",
    "AU_TFN": "123 456 782",
    "US_PASSPORT": "512345678",
    "US_DRIVER_LICENSE": "D1234567",
    "NATIONAL_ID": "X4471902",
    "BANK_ACCOUNT": "12345678901",
    "ONE_TIME_CODE": "482913",
    "ZIP_CODE": "94117",
    "HOME": "canary",
}
"""The part of each that must be gone."""


def surviving(policies: AnonymizationPolicies, *, detection: Detection = DEFAULT) -> list[str]:
    """What anonymizing leaves of the canaries, by field and type; nothing where it does what it should."""
    distinct = {policy.model_dump_json(): policy for policy in (policies.default, *map(policies.of, policies.tenants))}
    return sorted({place for policy in distinct.values() for place in left_by(policy, detection)})


def left_by(policy: AnonymizationPolicy, detection: Detection) -> Iterator[str]:
    """The same under one policy."""
    for kind, value in CANARIES.items():
        point = canary_point(value)
        anonymizer = Anonymizer(detection=detection, keep_file_names=not policy.remove_file_names)
        anonymize(point, anonymizer=anonymizer, salt=b"of no tenant", policy=policy)
        yield from (f"{field}: {kind}" for field, text in strings(point) if TELLING[kind] in text)


def canary_point(value: str) -> dict[str, Any]:
    """A point as wire JSON has it, with the value in every text but those that are never touched (SPEC section 4)."""
    point: dict[str, Any] = filled(inspect.type_info(DataPoint), f"it is {value}, they say")
    point["id"], point["timestamp"], point["tenantId"] = "kept", AT.isoformat(), "tenant of canaries"
    point["task"]["type"] = point["routing"]["selectedAgentId"] = "kept"
    point["provenance"] |= {name: [] for name in KEPT_WITHIN["provenance"]}
    return point


def filled(kind: inspect.Type, text: str) -> Any:
    """A value of a type of records, every optional part there, with the text wherever there can be any."""
    made: Any = text
    match kind:
        case inspect.StructType():
            made = {field.encode_name: filled(field.type, text) for field in kind.fields}
        case inspect.UnionType():
            made = filled(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), text)
        case inspect.VarTupleType() | inspect.ListType():
            made = [filled(kind.item_type, text)]
        case inspect.DictType():
            made = {"key": filled(kind.value_type, text)}
        case inspect.EnumType():
            made = next(iter(kind.cls)).value
        case inspect.LiteralType():
            made = kind.values[0]
        case inspect.DateTimeType():
            made = AT.isoformat()
        case inspect.BoolType():
            made = True
        case inspect.IntType() | inspect.FloatType():
            made = 1
    return made
