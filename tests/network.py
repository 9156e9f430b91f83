"""No test reaches another machine: a connection that is tried, or a name that is looked up, fails its test.

A library that looks for something on the network and goes on without it would not be noticed otherwise.
"""

from __future__ import annotations

import socket
import sys
import threading
import traceback
from ipaddress import ip_address

import pytest

__all__ = ["stays_on_this_machine"]

OWN = ("localhost", "", "0.0.0.0", "::", socket.gethostname(), socket.getfqdn())
_asked: list[str] = []


def _watch(event, arguments):
    if event == "socket.connect":
        where, address = arguments
        if isinstance(address, tuple) and where.type != socket.SOCK_DGRAM:  # a datagram socket sends nothing by that
            _note(address[0])
    elif event == "socket.getaddrinfo":
        _note(arguments[0])


def _note(host):
    host = host.decode() if isinstance(host, bytes) else host
    if host is None or host in OWN or host.endswith(".invalid"):  # a name that no machine can have (RFC 6761)
        return
    try:
        if ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    stack = "".join(traceback.format_stack(sys._getframe(2), 12))
    _asked.append(f"{host}, in thread {threading.current_thread().name}:\n{stack}")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def stays_on_this_machine():
    _asked.clear()
    yield
    assert not _asked, "other machines were asked for:\n" + "\n".join(_asked)
