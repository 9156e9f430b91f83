"""Large bodies, read from the socket straight into the memory that they are used from.

uvicorn hands a body over in pieces of 64 to 256 KB, each of which is copied four times on its way. An application that
knows how long a body is asks for all of it at once:

    read = scope["extensions"].get(BODY)
    body = await read(length)            # a memoryview, filled by the socket

The extension is there where uvicorn runs with httptools; an application that does not ask gets its pieces as ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .buffers import Buffers

__all__ = ["BODY", "ClientGone", "with_direct_bodies"]

BODY = "sidkit.body"
BUFFERS = Buffers()


class ClientGone(Exception):
    """The client left before its body had come."""


def with_direct_bodies(protocol: Any) -> Any:
    """A protocol of uvicorn that offers the extension; the same protocol where it cannot."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:  # httptools is optional
        return protocol
    if not issubclass(protocol, HttpToolsProtocol):
        return protocol

    class DirectBodies(protocol):  # type: ignore[misc]
        def on_headers_complete(self) -> None:
            async def read(length: int) -> memoryview:
                return await _read(self, cycle, length)

            self.scope["extensions"] = {**self.scope.get("extensions", {}), BODY: read}
            super().on_headers_complete()
            cycle = self.cycle

        def expect_next(self) -> None:
            """The body is complete. The parser still waits for the bytes that it was not given: a new one does not."""
            import httptools

            self.cycle.more_body = False
            self.parser = httptools.HttpRequestParser(self)
            if hasattr(self.parser, "set_dangerous_leniencies"):  # as uvicorn sets it
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    return DirectBodies


async def _read(connection: Any, cycle: Any, length: int) -> memoryview:
    """The body of a cycle, all `length` bytes of it."""
    body, filled = BUFFERS.take(length), 0
    while filled < length:
        message = await cycle.receive()  # what has come already; also answers "expect: 100-continue"
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message["body"]
        body[filled : filled + len(piece)] = piece
        filled += len(piece)
        if cycle.more_body and connection.cycle is cycle and filled < length:
            filled = await _Filling(connection, body, filled).rest()
    return body


class _Filling(asyncio.BufferedProtocol):
    """Takes the place of a connection's protocol until the rest of a body has come."""

    def __init__(self, connection: Any, body: memoryview, filled: int) -> None:
        self.connection, self.body, self.filled = connection, body, filled
        self.done: asyncio.Future[int] = connection.loop.create_future()

    async def rest(self) -> int:
        self._take_over(self)
        try:
            return await self.done
        except asyncio.CancelledError:  # what is left of the body would be taken for a request
            self._take_over(self.connection)
            self.connection.flow.pause_reading()
            self.connection.cycle.keep_alive = False
            raise

    def _take_over(self, protocol: Any) -> None:
        flow, transport = self.connection.flow, self.connection.transport
        flow.pause_reading()  # event loops look at the kind of protocol when reading starts
        transport.set_protocol(protocol)
        flow.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.body[self.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.filled += nbytes
        if self.filled == len(self.body) and not self.done.done():
            self.connection.expect_next()  # the next request may be there before anyone awaits this one
            self._take_over(self.connection)
            self.done.set_result(self.filled)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.connection_lost(exc)
        if not self.done.done():
            self.done.set_exception(ClientGone())

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()
