"""The HTTP server: uvicorn, which waits for a request's head only so long."""

import asyncio
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STREAM_GRACE_S = 3
KEEP_ALIVE_S = 15


def run(app: FastAPI, *, host: str, port: int, header_timeout_s: float) -> None:
    """Serve until SIGINT or SIGTERM: then no connection is taken any more, requests under way end, the app closes.

    Args:
        app: what is served.
        host: the address.
        port: the port.
        header_timeout_s: how long a connection may take to send the head of a request.
    """

    class Protocol(PatientProtocol):
        header_timeout = header_timeout_s

    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        http=Protocol,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STREAM_GRACE_S,
    )


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 that closes a connection whose request does not begin in time. uvicorn itself would wait for ever."""

    header_timeout: float
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client came."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """It went."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is here."""
        self._stop_waiting()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self.header_timeout, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
