"""A listening socket and its address."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from ..errors import SpecError

__all__ = ["bind", "url_of"]


def bind(host: str, ports: Iterable[int]) -> socket.socket:
    """A socket that listens at the first of the ports that is free."""
    for port in ports:
        listener = None
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1024)
            return listener
        except (OSError, OverflowError) as error:
            problem = error
            if listener is not None:
                listener.close()
    raise SpecError(f"cannot listen at {host} port {port}: {problem}; choose another --host or --port")


def url_of(host: str, listener: socket.socket) -> str:
    """The URL by which this machine reaches the socket."""
    here = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    shown = f"[{here}]" if ":" in here else here
    return f"http://{shown}:{listener.getsockname()[1]}/"
