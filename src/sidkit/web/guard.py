"""Which requests are answered, and what a browser may do with the answers.

On a loopback address every request from this machine is answered, but only under a name of this machine: a foreign
page whose host name points here (DNS rebinding) is refused. On any other address a token is needed, once in the URL,
then as a cookie.
"""

from __future__ import annotations

import hmac
import secrets
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlencode

__all__ = ["Guard", "host_of_this_machine", "is_loopback", "new_token"]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
COOKIE = "sidkit-explore"
NAMES = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """Wraps an ASGI application: refuses strangers and adds headers. Without a token, host names are checked."""

    def __init__(self, app: Any, token: str | None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page uses another protocol
            await send({"type": "websocket.close"})
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in named]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        answer = self._refusal(scope) or self.app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Any) -> Any:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, RedirectResponse

        request = Request(scope)
        if self.token is None:
            if host_of_this_machine(request.headers.get("host", "")):
                return None
            return PlainTextResponse("This address answers to localhost only.", 403)
        given = request.query_params.get("token")
        if given is not None and self._fits(given):
            rest = [(k, v) for k, v in parse_qsl(request.url.query, keep_blank_values=True) if k != "token"]
            path = "/" + request.url.path.lstrip("/")  # two slashes would name another machine
            answer = RedirectResponse(path + ("?" + urlencode(rest) if rest else ""), 303)
            answer.set_cookie(_cookie(scope), self.token, httponly=True, samesite="lax")
            return answer
        if self._fits(request.cookies.get(_cookie(scope), "")):
            return None
        return PlainTextResponse("A token is needed: open the URL that `sidkit explore` printed.", 403)

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


def host_of_this_machine(header: str) -> bool:
    """Whether a Host header names this machine: a foreign name that points here is a page's attempt to read from it."""
    name = header.rpartition(":")[0] if not header.endswith("]") and ":" in header else header
    return name in NAMES


def _cookie(scope: Any) -> str:
    """Cookies ignore ports: two explorers on one machine need two names."""
    return f"{COOKIE}-{(scope.get('server') or ('', 0))[1]}"
