"""Limits on connections: how many there may be, and how long one may take to say what it wants.

Without them a few hundred clients that open connections and send a byte now and then use up all file descriptors, and
nobody else is answered.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..errors import need
from .direct import with_direct_bodies

__all__ = ["limited_protocol"]

FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n"
    b"retry-after: 1\r\nconnection: close\r\n\r\ntoo many connections\n"
)
LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\ncontent-length: 25\r\n"
    b"connection: close\r\n\r\ntoo large a request head\n"
)
HEAD = 1 << 16  # bytes of a request before its body, beyond what comes in one piece


@cache
def limited_protocol(extra: str, most: int = 512, header_seconds: float = 10.0) -> Any:
    """uvicorn's protocol with at most `most` connections, each of whose requests has its headers within that time."""
    need("uvicorn", extra, "a server")
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    most = min(most, _file_limit() - 64)

    class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
        _timer: Any = None
        _seen: Any = None  # the request whose headers have come
        _head = 0  # bytes of the next one

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(FULL)
                transport.close()
            else:
                self._timer = self.loop.call_later(header_seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and self.cycle is not self._seen:
                self._seen, self._head = self.cycle, 0
                self._stop()
            elif self.cycle is None or self.cycle.response_complete:
                if self._timer is None:
                    self._timer = self.loop.call_later(header_seconds, self.transport.close)
                if self.cycle is None or not self.cycle.more_body:  # else the rest of a body that was refused
                    self._head += len(data)
                if self._head > HEAD:
                    self.transport.write(LARGE)
                    self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return with_direct_bodies(LimitedProtocol)


def _file_limit() -> int:
    """Files that this process may have open."""
    try:
        import resource
    except ImportError:  # Windows
        return 1 << 16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if soft == resource.RLIM_INFINITY else max(soft, 128)
