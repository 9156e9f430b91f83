"""The processes of a service: one, or several that share a socket."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..errors import need
from ..web.connections import limited_protocol
from ..web.listen import bind, url_of
from .options import ServeOptions

__all__ = ["application", "run"]

OPTIONS, CONNECTIONS = "SIDKIT_SERVE_OPTIONS", "SIDKIT_SERVE_CONNECTIONS"  # how worker processes learn what to serve


def application() -> Any:
    """The application of a worker process."""
    from .app import build

    return build(ServeOptions.from_json(os.environ[OPTIONS]))


def run(
    options: ServeOptions, host: str, port: int, workers: int, ready: Callable[[str], None], connections: int = 1024
) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are answered first."""
    uvicorn = need("uvicorn", "serve", "sidkit serve")
    for module in ("starlette", "orjson", "prometheus_client"):
        need(module, "serve", "sidkit serve")
    settings: dict[str, Any] = {
        "http": limited_protocol("serve", connections),
        "log_level": "warning",
        "access_log": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": int(options.seconds),
        "backlog": 1024,
    }
    with ExitStack() as stack:
        listener = stack.enter_context(bind(host, [port]))
        url = url_of(host, listener)
        if workers == 1:
            from .app import build

            server = uvicorn.Server(uvicorn.Config(build(options), **settings))
            _announce(server, lambda: ready(url))
            server.run(sockets=[listener])
            return
        _require_loadable(options)
        counts = stack.enter_context(tempfile.TemporaryDirectory(prefix="sidkit-metrics-"))
        os.environ |= {OPTIONS: options.to_json(), CONNECTIONS: str(connections), "PROMETHEUS_MULTIPROC_DIR": counts}
        settings["http"] = "sidkit.serve.run:WorkerProtocol"
        settings["fd"] = listener.fileno()
        ready(url)
        uvicorn.run("sidkit.serve.run:application", factory=True, workers=workers, **settings)


def _announce(server: Any, ready: Callable[[], None]) -> None:
    """Call `ready` once requests are answered."""
    start = server.startup

    async def startup(sockets: Any = None) -> None:
        await start(sockets=sockets)
        if not server.should_exit:
            ready()

    server.startup = startup


def _require_loadable(options: ServeOptions) -> None:
    """Workers that cannot load would be started again and again: fail once, here."""
    from .snapshot import Snapshot

    Snapshot.load(options)


def __getattr__(name: str) -> Any:
    if name == "WorkerProtocol":
        return limited_protocol("serve", int(os.environ.get(CONNECTIONS, "1024")))
    raise AttributeError(name)
