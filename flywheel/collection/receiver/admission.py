"""Which records of a request are taken, and as what: judged one by one, so that one bad record costs no other."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from flywheel.collection.importers.otlp_spans import Item, LooseEvent, Refused, Span, encode_item
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.receiver.bodies import BodyTooLargeError, is_deeper
from flywheel.records import Evaluation, Execution, Feedback, Log, RoutingDecision

Kind = Literal["routing", "execution", "evaluation", "feedback"]
RECORDS: dict[Kind, type[Log]] = {
    "routing": RoutingDecision,
    "execution": Execution,
    "evaluation": Evaluation,
    "feedback": Feedback,
}
DECODE: dict[Kind, Callable[[bytes], Log]] = {
    kind: msgspec.json.Decoder(record).decode for kind, record in RECORDS.items()
}


class Admitted(Struct, frozen=True):
    """The lines to store, and the items that are none."""

    lines: list[bytes]
    refused: list[Refused]


def admit_records(items: Sequence[bytes], kind: Kind, *, tenant_id: str, limits: ReceiverSettings) -> Admitted:
    """The records as lines of the tenant. What a record has beyond its schema is kept.

    Raises:
        BodyTooLargeError: there are more of them than a request may have.
    """
    check_count(len(items), limits)
    lines: list[bytes] = []
    refused: list[Refused] = []
    for index, item in enumerate(items):
        judged = admit_record(item, kind, tenant_id=tenant_id, limits=limits)
        if isinstance(judged, bytes):
            lines.append(judged)
        else:
            refused.append(msgspec.structs.replace(judged, index=index))
    return Admitted(lines, refused)


def admit_record(item: bytes, kind: Kind, *, tenant_id: str, limits: ReceiverSettings) -> bytes | Refused:
    """One record as a line of the tenant, or why it is none."""
    unfit = misfit(item, limits)
    if unfit is not None:
        return unfit
    try:
        record = msgspec.json.decode(item)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refused(index=0, reason="not-json", detail=str(error))
    if not isinstance(record, dict):
        return Refused(index=0, reason="schema", detail=f"a record is an object, this is a {type(record).__name__}")
    if record.get("tenantId", tenant_id) not in (None, tenant_id):
        detail = "the record names another tenant than its key is of; leave tenantId out, or use that tenant's key"
        return Refused(index=0, reason="tenant", detail=detail)
    try:
        line = msgspec.json.encode({"log": kind, **record, "tenantId": tenant_id})
        DECODE[kind](line)
    except (ValueError, OverflowError) as error:
        return Refused(index=0, reason="schema", detail=str(error))
    return line


def admit_spans(items: Sequence[Span | LooseEvent | Refused], *, tenant_id: str, limits: ReceiverSettings) -> Admitted:
    """Spans or events as lines of the tenant.

    Raises:
        BodyTooLargeError: there are more of them than a request may have.
    """
    check_count(len(items), limits)
    lines: list[bytes] = []
    refused: list[Refused] = []
    for index, item in enumerate(items):
        judged = item if isinstance(item, Refused) else admit_span(item, tenant_id=tenant_id, limits=limits)
        if isinstance(judged, bytes):
            lines.append(judged)
        else:
            refused.append(msgspec.structs.replace(judged, index=index))
    return Admitted(lines, refused)


def admit_span(item: Item, *, tenant_id: str, limits: ReceiverSettings) -> bytes | Refused:
    """One span or event as a line of the tenant, or why it is none."""
    try:
        line = encode_item(msgspec.structs.replace(item, tenant_id=tenant_id))
    except (ValueError, OverflowError, RecursionError) as error:  # an integer beyond 64 bits, text that is not Unicode
        return Refused(index=0, reason="attributes", detail=str(error))
    return misfit(line, limits) or line


def misfit(item: bytes, limits: ReceiverSettings) -> Refused | None:
    """Why an item is beyond the receiver's bounds, if it is."""
    if len(item) > limits.max_item_bytes:
        detail = f"it has {len(item):,} bytes; one record or span may have {limits.max_item_bytes:,}"
        return Refused(index=0, reason="too-large", detail=detail)
    if is_deeper(item, limits.max_depth):
        return Refused(index=0, reason="too-deep", detail=f"it nests deeper than {limits.max_depth} levels")
    return None


def check_count(count: int, limits: ReceiverSettings) -> None:
    """See that a request has not too many items.

    Raises:
        BodyTooLargeError: it has.
    """
    if count > limits.max_items:
        raise BodyTooLargeError(
            f"{count:,} items are more than the {limits.max_items:,} of a request; send less at once"
        )
