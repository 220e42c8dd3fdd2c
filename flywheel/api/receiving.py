"""What all routes of the receiver do: ask whose a request is, read its body within bounds, store its records."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
from fastapi import Request
from fastapi.security import HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.receiver.admission import Admitted, misfit
from flywheel.collection.receiver.bodies import (
    BodyError,
    BodyTooLargeError,
    SlowBodyError,
    UnknownEncodingError,
    decoded,
)
from flywheel.collection.receiver.committing import DiskError
from flywheel.collection.receiver.keys import Holder, MayNotRunError, UnknownKeyError
from flywheel.collection.receiver.receiver import Receiver, Signal
from flywheel.errors import FlywheelError

T = TypeVar("T")

INLINE_BYTES = 64 * 1024  # more is unpacked and judged in a thread, so that no other request waits for it
KEYS = "send a key (`flywheel keys create --tenant TENANT` makes one) as `Authorization: Bearer …`"
key_scheme = HTTPBearer(
    auto_error=False,
    scheme_name="ApiKey",
    description="A key of the receiver, from `flywheel keys create --tenant TENANT`. It decides whose the records are.",
)


class UnusableRequestError(FlywheelError):
    """Raised for a request that can be read, and does not say what it has to. The message names the field."""


class Taken:
    """A request on its way: what it came with and when."""

    def __init__(
        self, receiver: Receiver, holder: Holder, signal: Signal, *, media_type: str, body: bytes, began: float
    ) -> None:
        self.receiver = receiver
        self.holder = holder
        self.signal: Signal = signal
        self.media_type = media_type
        self.body = body
        self._began = began

    async def judged(self, judge: Callable[[bytes], T], *, encoding: str) -> T:
        """What ``judge`` makes of the body without its content encoding.

        Raises:
            BodyError: it cannot be read.
        """
        work = partial(self._judged, judge, encoding)
        small = len(self.body) <= INLINE_BYTES and not encoding
        return work() if small else await run_in_threadpool(work)

    def _judged(self, judge: Callable[[bytes], T], encoding: str) -> T:
        return judge(decoded(self.body, encoding, max_bytes=self.receiver.limits.max_decoded_bytes))

    async def stored(self, admitted: Admitted) -> None:
        """Return when the admitted lines are synced to disk.

        Raises:
            BacklogError: too much waits for the disk.
            DiskError: the disk does not take it, or not in time.
        """
        future = self.receiver.store(self.holder, self.signal, admitted)
        limit_s = self.receiver.limits.write_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.wrap_future(future)
        except TimeoutError:
            raise DiskError(f"the receiver's disk has not taken it within {limit_s:.0f} s; send it again") from None
        self.receiver.acknowledge(self.signal, admitted.lines, seconds=time.perf_counter() - self._began)


def receiver_of(request: Request) -> Receiver:
    """The receiver that the service runs."""
    receiver: Receiver = request.app.state.receiver
    return receiver


async def taken(request: Request, signal: Signal, *media_types: str) -> Taken:
    """The request with its body, in one of these media types, from a key that may send.

    Who it is from is asked first: nothing is told to somebody without a key, and no body of theirs is read.

    Raises:
        UnknownKeyError: it has no key that is good.
        RateError: its key sends too much.
        UnknownEncodingError: its content type is none of them.
        BodyError: the body is too large, too slow or cut short.
        DatabaseError: the key is not in memory and PostgreSQL cannot be used.
    """
    began = time.perf_counter()
    receiver = receiver_of(request)
    holder = await holder_of(request, receiver)
    receiver.check_rate(holder)
    found = media_type(request, *media_types)
    body = await body_of(request, receiver)
    receiver.counters.bytes.labels(signal).inc(len(body))
    return Taken(receiver, holder, signal, media_type=found, body=body, began=began)


async def holder_of(request: Request, receiver: Receiver) -> Holder:
    """Whose key a request carries.

    Raises:
        UnknownKeyError: it carries none that is good.
        DatabaseError: the key is not in memory and PostgreSQL cannot be used.
    """
    scheme, key = get_authorization_scheme_param(request.headers.get("authorization"))
    if scheme.lower() != "bearer" or not key:
        raise UnknownKeyError(f"this request has no key; {KEYS}")
    try:
        found = receiver.keys.remembered(key)
        return found if found is not None else await run_in_threadpool(receiver.keys.find, key)
    except UnknownKeyError as error:
        raise UnknownKeyError(f"{error}; {KEYS}") from None


async def body_of(request: Request, receiver: Receiver) -> bytes:
    """The body as it was sent.

    Raises:
        BodyTooLargeError: it is larger than a request may be.
        SlowBodyError: it has not arrived in time.
        BodyError: the client went away.
    """
    limits = receiver.limits
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > limits.max_body_bytes:
        raise BodyTooLargeError(too_large(limits))
    pieces = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            async for piece in request.stream():
                size += len(piece)
                if size > limits.max_body_bytes:
                    raise BodyTooLargeError(too_large(limits))
                pieces.append(piece)
    except TimeoutError:
        raise SlowBodyError(
            f"the body did not arrive within {limits.body_timeout_s:.0f} s; {size:,} bytes did"
        ) from None
    except ClientDisconnect:
        raise BodyError("the client went away before its body had come") from None
    return b"".join(pieces)


def too_large(limits: ReceiverSettings) -> str:
    """What a body is told that is larger than the bound."""
    return f"a request has at most {limits.max_body_bytes:,} bytes; send less at once, or compressed"


def media_type(request: Request, *known: str) -> str:
    """The content type without parameters; the first known one where the request has none.

    Raises:
        UnknownEncodingError: it is none of the known ones.
    """
    found = request.headers.get("content-type", known[0]).partition(";")[0].strip().lower()
    if found not in known:
        raise UnknownEncodingError(f"content type {found[:80]!r} is not known here; send {' or '.join(known)}")
    return found


async def runner_of(request: Request) -> Holder:
    """Whose key a request carries, if tasks may be run with it and it may send now.

    Raises:
        UnknownKeyError: it carries none that is good.
        MayNotRunError: the key is for records alone.
        RateError: its key sends too much.
        DatabaseError: the key is not in memory and PostgreSQL cannot be used.
    """
    receiver = receiver_of(request)
    holder = await holder_of(request, receiver)
    if not holder.may_run_tasks:
        raise MayNotRunError(
            f"key {holder.key_id} sends records and runs no tasks; `flywheel keys create --tenant TENANT "
            f"--may-run-tasks` makes one that does"
        )
    receiver.check_rate(holder)
    receiver.rates.take(holder.key_id, 1)
    return holder


async def object_of(request: Request, kind: type[T]) -> T:
    """The body of a request that is one JSON object, within the receiver's bounds of a record.

    Raises:
        UnusableRequestError: it is JSON, and not what is asked for.
        FlywheelError: as ``document_of``.
    """
    return await document_of(request, partial(_object, kind=kind))


async def document_of(request: Request, read: Callable[[bytes], T]) -> T:
    """What ``read`` makes of the body of a request that is one JSON document, within the receiver's bounds of a record.

    Raises:
        UnknownEncodingError: its content type or encoding is none that is known.
        BodyError: the body is too large, too deep, too slow or cut short.
        BacklogError: the requests under way hold all there is.
    """
    receiver = receiver_of(request)
    media_type(request, "application/json")
    body, encoding = await body_of(request, receiver), request.headers.get("content-encoding", "")
    with receiver.room_for(len(body)):
        work = partial(_document, body, encoding, read, receiver.limits)
        return work() if len(body) <= INLINE_BYTES and not encoding else await run_in_threadpool(work)


def _document(body: bytes, encoding: str, read: Callable[[bytes], T], limits: ReceiverSettings) -> T:
    document = decoded(body, encoding, max_bytes=limits.max_item_bytes)
    unfit = misfit(document, limits)
    if unfit is not None:
        raise BodyTooLargeError(unfit.detail) if unfit.reason == "too-large" else BodyError(unfit.detail)
    return read(document)


def _object(document: bytes, *, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.ValidationError as error:
        raise UnusableRequestError(f"the request cannot be used: {error}. /docs lists what can be asked") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyError(f"the body is no JSON: {error}") from None
