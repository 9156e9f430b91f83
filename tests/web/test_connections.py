"""Slow and surplus connections do not keep others from being answered."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from sidkit.web.listen import bind

uvicorn = pytest.importorskip("uvicorn")

from sidkit.web.connections import limited_protocol  # noqa: E402


async def hello(scope, receive, send):
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@contextmanager
def served(most, seconds):
    with bind("127.0.0.1", [0]) as listener:
        protocol = limited_protocol("explore", most, seconds)
        server = uvicorn.Server(uvicorn.Config(hello, http=protocol, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()
        server.should_exit = True
        thread.join()


def answer(connection, request=b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"):
    connection.sendall(request)
    connection.settimeout(5)
    return connection.recv(1000)


def closed(connection, within):
    connection.settimeout(within)
    try:
        return connection.recv(1000) == b""
    except TimeoutError:
        return False


def test_a_connection_that_never_asks_is_closed():
    with (
        served(10, 0.3) as address,
        socket.create_connection(address) as silent,
        socket.create_connection(address) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nhos")
        assert closed(silent, 3)
        assert closed(slow, 3)


def test_a_second_request_that_dribbles_is_closed_too_and_a_long_answer_is_not():
    with served(10, 0.3) as address, socket.create_connection(address) as one:
        assert answer(one).endswith(b"hi")
        assert answer(one, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").endswith(b"hi")  # takes twice the limit
        one.sendall(b"GET")
        assert closed(one, 3)


def test_connections_beyond_the_limit_are_told_so_and_others_still_answered():
    with served(5, 30.0) as address:
        held = [socket.create_connection(address) for _ in range(5)]
        time.sleep(0.1)
        with socket.create_connection(address) as surplus:
            assert answer(surplus).startswith(b"HTTP/1.1 503")
        assert answer(held[0]).endswith(b"hi")
        held.pop().close()
        time.sleep(0.1)
        with socket.create_connection(address) as late:
            assert answer(late).endswith(b"hi")
        for one in held:
            one.close()
