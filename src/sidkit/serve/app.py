"""The ASGI application: reading bodies within limits, errors as JSON, reloads, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from ..engine import native
from ..errors import SidkitError, need
from ..web.direct import BODY, ClientGone
from ..web.guard import host_of_this_machine
from .batching import Batcher, Busy, Calls
from .bodies import ARROW, JSON, Refused, rehearse, to_json
from .endpoints import Body, Endpoints
from .metrics import ServiceMetrics
from .openapi import description, page
from .options import ServeOptions
from .snapshot import Snapshot, state_of

__all__ = ["Service", "build"]

log = logging.getLogger("sidkit.serve")
LARGE = 1 << 17  # bytes of a body that is read straight into memory
NEEDED = {"/lookup": "--sids", "/prefix": "--sids", "/recommend": "--run", "/search": "--search"}  # options of paths


class Service:
    """A running service: its current snapshot, its queues and its counts."""

    def __init__(self, options: ServeOptions) -> None:
        native.prepare(math.inf)  # a service encodes for long: kernels that were never built or tried pay here
        self.options, self.snapshot = options, _loaded(options)
        self.metrics = ServiceMetrics()
        self.batcher = Batcher(options.queue_rows, self.metrics.batch)
        self.endpoints = Endpoints(options, self.batcher, Calls(options.queue_calls))
        self.draining = False

    async def watch(self) -> None:
        """Load new files when they appear. What cannot be loaded is reported, and the old snapshot stays."""
        refused: Any = None
        while True:
            await asyncio.sleep(self.options.reload_every)
            state = state_of(self.options)
            if state not in (self.snapshot.state, refused):
                refused = None if await self.reload() else state

    async def reload(self) -> bool:
        """Whether a new snapshot is in place. Requests in progress end with the one they began with."""
        loop = asyncio.get_running_loop()
        try:
            self.snapshot = await loop.run_in_executor(None, _loaded, self.options, self.snapshot)
        except (SidkitError, OSError) as error:
            log.error("not reloaded, the old tokenizer stays: %s", error)
            self.metrics.reloads.labels("refused").inc()
            return False
        log.warning("reloaded: tokenizer %s", self.snapshot.fitted.digest)
        self.metrics.reloads.labels("done").inc()
        return True

    def health(self) -> tuple[int, dict[str, Any]]:
        snapshot = self.snapshot
        facts: dict[str, Any] = {"status": "draining" if self.draining else "ok", "tokenizer": snapshot.fitted.digest}
        facts |= {"sizes": snapshot.fitted.sizes, "dimension": snapshot.fitted.d}
        if snapshot.published is not None:
            facts["items"] = len(snapshot.published)
        return (503 if self.draining else 200), facts


def _loaded(options: ServeOptions, before: Snapshot | None = None) -> Snapshot:
    """A snapshot whose first request is answered as fast as the others."""
    snapshot = Snapshot.load(options, before)
    rehearse(snapshot)
    return snapshot


def build(options: ServeOptions) -> Any:
    """The application of one process."""
    need("starlette", "serve", "sidkit serve")
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    service = Service(options)
    ends = service.endpoints
    posts: dict[str, Callable[..., Awaitable[Body]]] = {"/encode": ends.encode}
    if service.snapshot.published is not None:
        posts |= {"/lookup": ends.lookup, "/prefix": ends.prefix}
    if service.snapshot.retriever is not None:
        posts["/recommend"] = ends.recommend
    if service.snapshot.search is not None:
        posts["/search"] = ends.search
    api = description(options, service.snapshot, tuple(posts))

    def get(answer: Callable[[], tuple[int, bytes, str]]) -> Callable[[Any], Any]:
        async def endpoint(request: Any) -> Any:
            status, content, kind = answer()
            return Response(content, status, media_type=kind)

        return endpoint

    def health() -> tuple[int, bytes, str]:
        status, facts = service.health()
        return status, to_json(facts), JSON

    gets: dict[str, Callable[[], tuple[int, bytes, str]]] = {
        "/healthz": health,
        "/metrics": lambda: (200, *service.metrics.text()),
        "/openapi.json": lambda: (200, to_json(api), JSON),
        "/": lambda: (200, page(api).encode(), "text/html"),
    }
    routes = [Route(path, _post(service, path, call), methods=["POST"]) for path, call in posts.items()]
    routes += [Route(path, get(answer), methods=["GET"]) for path, answer in gets.items()]
    app = Starlette(routes=routes, exception_handlers={404: _status, 405: _status}, lifespan=_lifespan(service))
    app.router.redirect_slashes = False
    app.state.service = service
    return _Doorman(app, options.token)


def _post(service: Service, path: str, call: Callable[..., Awaitable[Body]]) -> Callable[[Any], Any]:
    from starlette.responses import Response

    options = service.options

    async def endpoint(request: Any) -> Any:
        began, status, extra = time.perf_counter(), 200, {}
        try:
            kind = _kind(request.headers.get("content-type", JSON), path)
            body = await _body(request, options)
            async with asyncio.timeout(options.seconds):
                content, kind = await call(service.snapshot, body, kind)
        except Refused as error:
            status, content, kind = error.status, to_json({"error": error.reason}), JSON
        except Busy as error:
            status, content, kind = 429, to_json({"error": f"{error}; try again"}), JSON
            extra = {"retry-after": "1"}
        except TimeoutError:
            status, content, kind = 503, to_json({"error": f"no answer within {options.seconds:g} s"}), JSON
            extra = {"retry-after": "1"}
        service.metrics.answered(path, status, time.perf_counter() - began)
        return Response(content, status, extra, kind)

    return endpoint


def _kind(content_type: str, path: str) -> str:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == JSON or (kind == ARROW and path == "/encode"):
        return kind
    kinds = JSON + (f" or {ARROW}" if path == "/encode" else "")
    raise Refused(415, f"the body must be {kinds}, and its content-type says {kind[:100] or 'nothing'}")


async def _body(request: Any, options: ServeOptions) -> bytes | memoryview:
    """The body of a request, within the limits of size and time."""
    from starlette.requests import ClientDisconnect

    most = options.body_bytes
    text = request.headers.get("content-length", "")
    length = int(text) if text.isdecimal() and len(text) < 20 and "transfer-encoding" not in request.headers else 0
    if length > most:
        raise Refused(413, f"the body has more than {most:,} bytes")
    direct = request.scope.get("extensions", {}).get(BODY)
    try:
        async with asyncio.timeout(options.seconds):
            if direct and length >= LARGE:
                return await direct(length)  # type: ignore[no-any-return]
            parts, total = [], 0
            async for part in request.stream():
                total += len(part)
                if total > most:
                    raise Refused(413, f"the body has more than {most:,} bytes")
                parts.append(part)
            return b"".join(parts)
    except (ClientDisconnect, ClientGone):
        raise Refused(400, "the client left before its body had come") from None
    except TimeoutError:
        raise Refused(408, f"the body did not come within {options.seconds:g} s") from None


async def _status(request: Any, error: Any) -> Any:
    from starlette.responses import Response

    path = request.url.path
    nothing = (
        f"this service was started without {NEEDED[path]}" if path in NEEDED else f"there is nothing at {path[:200]}"
    )
    words = {404: nothing, 405: "this path takes another method"}
    return Response(to_json({"error": words[error.status_code]}), error.status_code, error.headers, JSON)


def _lifespan(service: Service) -> Callable[[Any], Any]:
    @asynccontextmanager
    async def lifespan(app: Any) -> Any:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []
        with suppress(NotImplementedError, ValueError, RuntimeError, AttributeError):  # Windows, or not the main thread
            loop.add_signal_handler(signal.SIGHUP, lambda: tasks.append(loop.create_task(service.reload())))
        if service.options.reload_every:
            tasks.append(loop.create_task(service.watch()))
        yield
        service.draining = True
        for task in tasks:
            task.cancel()

    return lifespan


class _Doorman:
    """Refuses whoever has no token, on every path; without a token, whoever does not name this machine."""

    def __init__(self, app: Any, token: str | None) -> None:
        self.app, self.state, self.expected = app, app.state, None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self.expected is None:
            status = 200 if host_of_this_machine(headers.get(b"host", b"").decode("latin-1")) else 403
        else:
            status = 200 if hmac.compare_digest(headers.get(b"authorization", b""), self.expected) else 401
        if status == 200 and scope["type"] == "http":
            await self.app(scope, receive, send)
            return
        from starlette.responses import Response

        words = {401: "send the token: Authorization: Bearer ...", 403: "this address answers to localhost only"}
        extra = {"www-authenticate": "Bearer"} if status == 401 else {}
        await Response(to_json({"error": words.get(status, "no such protocol")}), status, extra, JSON)(
            scope, receive, send
        )
