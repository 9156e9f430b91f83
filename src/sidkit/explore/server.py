"""Addresses to answers, and the process that serves them.

    /               a prefix: t (which table), p (12-3), page, sort
    /item           an item: id
    /search         q, page
    /ask            q: what a search model answers
    /api/...        the same as JSON

All pages are one document whose script calls the API. What does not exist gets status 404, as a page and as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import need
from ..web.connections import limited_protocol
from ..web.guard import Guard, is_loopback, new_token
from ..web.listen import bind, url_of
from .pages import Missing, Pages

__all__ = ["build", "serve"]

STATIC = Path(__file__).parent / "static"
PORT = 8417
PREFIX = re.compile(r"(\d{1,9}(-\d{1,9}){0,63})?", re.ASCII)


def build(pages: Pages, token: str | None = None) -> Any:
    """The ASGI application; token None is for loopback addresses."""
    need("starlette", "explore", "sidkit explore")
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import FileResponse, JSONResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    def api(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def endpoint(request: Any) -> Any:
            return JSONResponse(answer(request.query_params))

        return endpoint

    def page(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def endpoint(request: Any) -> Any:
            try:
                check(request.query_params)
            except Missing:
                return FileResponse(STATIC / "index.html", 404)
            return FileResponse(STATIC / "index.html")

        return endpoint

    def missing(request: Any, error: Exception) -> Any:
        if isinstance(error, HTTPException) and error.status_code != 404:
            return JSONResponse({"error": error.detail}, error.status_code)
        if request.url.path.startswith(("/api/", "/static/")):
            message = str(error) if isinstance(error, Missing) else f"there is nothing at {request.url.path}"
            return JSONResponse({"error": message}, 404)
        return FileResponse(STATIC / "index.html", 404)

    answers = _answers(pages)
    routes: list[Any] = [Route(f"/api/{name}", api(answer)) for name, answer in answers.items()]
    routes += [
        Route("/", page(answers["node"])),
        Route("/item", page(answers["item"])),
        Route("/search", page(answers["search"])),
        Route("/ask", page(lambda query: pages.ask(""))),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={Missing: missing, HTTPException: missing}), token)


def _answers(pages: Pages) -> dict[str, Callable[[Any], Any]]:
    def key(query: Any) -> str:
        return str(query.get("t", "a"))

    def order(query: Any) -> str:
        given = str(query.get("sort", "items"))
        if given not in ("items", "token"):
            raise Missing(f"branches are sorted by items or token, not by {given!r}")
        return given

    return {
        "about": lambda query: pages.about(),
        "node": lambda query: pages.node(key(query), _prefix(query), _number(query), order(query)),
        "members": lambda query: pages.members(key(query), _prefix(query), _number(query)),
        "counterpart": lambda query: pages.counterpart(key(query), _prefix(query)),
        "item": lambda query: pages.item(str(query.get("id", ""))),
        "near": lambda query: pages.near(str(query.get("id", "")), key(query)),
        "search": lambda query: pages.search(str(query.get("q", ""))[:500], _number(query)),
        "ask": lambda query: pages.ask(str(query.get("q", ""))[:500]),
    }


def _prefix(query: Any) -> tuple[int, ...]:
    text = str(query.get("p", ""))
    if not PREFIX.fullmatch(text):
        raise Missing(f"{text[:100]!r} is not a prefix; write the codes as 12-3-77")
    return tuple(int(code) for code in text.split("-")) if text else ()


def _number(query: Any) -> int:
    """The page number, from 0; addresses count from 1."""
    text = str(query.get("page", "1"))
    if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        raise Missing(f"{text[:100]!r} is not a page number")
    return int(text) - 1


def serve(pages: Pages, host: str, port: int | None, ready: Callable[[str], None]) -> None:
    """Serve until interrupted. `ready` is called with the URL once a browser can open it."""
    uvicorn = need("uvicorn", "explore", "sidkit explore")
    token = None if is_loopback(host) else new_token()
    app = build(pages, token)
    with bind(host, range(PORT, PORT + 50) if port is None else [port]) as listener:
        url = url_of(host, listener) + (f"?token={token}" if token else "")
        limits: dict[str, Any] = {"http": limited_protocol("explore"), "timeout_keep_alive": 30}
        config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=2, **limits)
        server = uvicorn.Server(config)
        start = server.startup

        async def startup(sockets: Any = None) -> None:
            await start(sockets=sockets)
            ready(url)  # not before: an interrupt is handled from now on

        server.startup = startup
        server.run(sockets=[listener])
