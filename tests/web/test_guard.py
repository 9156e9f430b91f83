"""Off loopback no request is answered without the token, whatever its path, method or protocol."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette")

from sidkit.explore.server import build
from sidkit.web.guard import Guard

TOKEN = "secret-token"


def asked(app, path="/", query=b"", kind="http", method="GET", **headers):
    """What an application sends; 'reached' if it came to the inner one."""
    sent = []
    scope = {"type": kind, "method": method, "path": path, "raw_path": path.encode(), "query_string": query}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()], "http_version": "1.1"}
    scope |= {"scheme": "http", "server": ("0.0.0.0", 80), "client": ("10.0.0.9", 4), "root_path": ""}

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    with ThreadPoolExecutor(1) as pool:  # in the main thread the browser's tests leave a loop running
        pool.submit(asyncio.run, app(scope, receive, send)).result()
    return sent


async def reached(scope, receive, send):
    await send({"type": "reached"})


def test_every_route_of_the_explorer_asks_for_the_token():
    guard = build(None, TOKEN)
    paths = [route.path for route in guard.app.routes]
    assert len(paths) > 10
    for path in [*paths, "/static/app.js", "/nothing", "//", "/api/../static/app.js"]:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            for query, headers in ((b"", {}), (b"token=x", {}), (b"", {"cookie": "sidkit-explore-80=x"})):
                assert asked(guard, path, query, method=method, **headers)[0]["status"] == 403, (method, path)


def test_no_other_protocol_reaches_the_pages():
    for token in (TOKEN, None):
        assert asked(Guard(reached, token), kind="websocket", host="localhost") == [{"type": "websocket.close"}]
    assert asked(Guard(reached, TOKEN), kind="lifespan") == [{"type": "reached"}]


def test_a_cookie_of_the_token_is_enough_and_the_redirect_stays_on_this_machine():
    assert asked(Guard(reached, TOKEN), cookie=f"sidkit-explore-80={TOKEN}") == [{"type": "reached"}]
    (start, *_) = asked(Guard(reached, TOKEN), "//evil.example/x", f"token={TOKEN}&p=3".encode())
    assert (start["status"], dict(start["headers"])[b"location"]) == (303, b"/evil.example/x?p=3")
