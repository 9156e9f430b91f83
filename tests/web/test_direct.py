"""Large bodies are read into one piece of memory, and the connection goes on as if uvicorn had read them."""

import asyncio
import gc
import hashlib
import socket
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from sidkit.web.buffers import Buffers
from sidkit.web.listen import bind

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("httptools")

from sidkit.web.connections import limited_protocol  # noqa: E402
from sidkit.web.direct import BODY, ClientGone  # noqa: E402

LARGE = np.random.default_rng(0).integers(0, 256, 3_000_000, np.uint8).tobytes()
gone = []


async def pieced(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    return body


async def digest(scope, receive, send):
    """The SHA-256 of a body, read by the extension; 408 if it did not come in time."""
    length = int(dict(scope["headers"]).get(b"content-length", b"0"))
    status, body = 200, b""
    try:
        async with asyncio.timeout(0.5 if scope["path"] == "/soon" else 10):
            if scope["path"] == "/pieces":
                body = await pieced(receive)
            elif length:
                body = await scope["extensions"][BODY](length)
    except TimeoutError:
        status = 408
    except ClientGone:
        gone.append(length)
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(0.2)
    content = hashlib.sha256(body).hexdigest().encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"64")]})
    await send({"type": "http.response.body", "body": content})


class Echo(asyncio.Protocol):
    """Takes the place of a protocol for websockets, and sends back what comes."""

    def __init__(self, config, server_state, app_state):
        pass

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


@contextmanager
def served(loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    with bind("127.0.0.1", [0]) as listener:
        protocol = limited_protocol("explore", 10, 5.0)
        config = uvicorn.Config(digest, http=protocol, ws=Echo, loop=loop, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        with socket.create_connection(listener.getsockname()) as client:
            client.settimeout(5)
            yield client
        server.should_exit = True
        thread.join()


@pytest.fixture(params=["asyncio", "uvloop"])
def client(request):
    with served(request.param) as one:
        yield one


def post(body, path="/", **headers):
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode() + body


def answer(client):
    """Status and body of the next answer, and no byte more."""
    content = b""
    while b"\r\n\r\n" not in content or len(content.partition(b"\r\n\r\n")[2]) < 64:
        piece = client.recv(1)
        assert piece, f"closed after {content!r}"
        content += piece
    return int(content[9:12]), content[-64:].decode()


def sha(body):
    return 200, hashlib.sha256(body).hexdigest()


def test_a_body_arrives_whole_and_the_connection_is_used_again(client):
    for body in (LARGE, b"small", LARGE[:70_000], b"", LARGE[1:]):
        client.sendall(post(body))
        assert answer(client) == sha(body)


def test_requests_sent_at_once_are_answered_in_order(client):
    threading.Thread(target=client.sendall, args=(post(LARGE, "/slow") + post(LARGE[5:]) + post(b"end"),)).start()
    assert [answer(client) for _ in range(3)] == [sha(LARGE), sha(LARGE[5:]), sha(b"end")]


def test_an_application_that_does_not_ask_gets_its_pieces(client):
    request = post(LARGE, "/pieces")
    for part in (request[:100_000], request[100_000:100_001], request[100_001:], post(b"end", "/pieces")):
        client.sendall(part)
    assert [answer(client), answer(client)] == [sha(LARGE), sha(b"end")]


def test_a_connection_can_become_a_websocket(client):
    head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    client.sendall(head)
    assert client.recv(1000).startswith(b"GET / HTTP/1.1\r\n")
    for part in (b"one", LARGE):
        threading.Thread(target=client.sendall, args=(part,)).start()
        got = b""
        while len(got) < len(part):
            got += client.recv(1 << 20)
        assert got == part


def test_a_client_that_waits_to_be_asked_is_asked(client):
    request = post(LARGE, expect="100-continue")
    client.sendall(request[: -len(LARGE)])
    assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sendall(LARGE)
    assert answer(client) == sha(LARGE)


def test_a_body_that_does_not_come_is_told_so_and_what_follows_is_no_request(client):
    client.sendall(post(LARGE, "/soon")[:1_000_000])
    assert answer(client)[0] == 408
    client.sendall(b"\r\n\r\n" + post(b"small"))
    client.settimeout(2)
    with suppress(ConnectionResetError):  # closed, by an end or by a reset
        assert client.recv(10) == b""


def test_a_client_that_leaves_is_noticed(client):
    gone.clear()
    client.sendall(post(LARGE)[:1_000_000])
    time.sleep(0.1)
    client.close()
    end = time.monotonic() + 5
    while not gone and time.monotonic() < end:
        time.sleep(0.01)
    assert gone == [len(LARGE)]


class TestBuffers:
    def test_memory_is_used_again_once_nothing_refers_to_it(self):
        buffers = Buffers()
        first = buffers.take(5_000_000)
        address = np.frombuffer(first, np.uint8).ctypes.data
        part = np.frombuffer(first[100:200], np.uint8)
        del first
        second = buffers.take(4_900_000)
        assert np.frombuffer(second, np.uint8).ctypes.data != address  # a part of the first is still in use
        del part
        gc.collect()
        third = buffers.take(4_000_000)
        assert np.frombuffer(third, np.uint8).ctypes.data == address
        assert len(third) == 4_000_000

    def test_few_buffers_are_kept_and_the_largest_of_them(self):
        buffers = Buffers(kept=2)
        lent = [buffers.take(n << 20) for n in (1, 5, 3, 2)]
        lent.clear()
        gc.collect()
        assert sorted(len(one) >> 20 for one in buffers.free) == [3, 5]
