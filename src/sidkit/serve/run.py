"""The processes of a service: one, or several that share a socket."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
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
        # uvicorn would start other workers and end these, with connections that they have not yet read from.
        uvicorn.supervisors.Multiprocess.handle_hup = _tell_workers
        uvicorn.run("sidkit.serve.run:application", factory=True, workers=workers, **settings)


def _tell_workers(supervisor: Any) -> None:
    """SIGHUP goes on to every worker, which loads what is new and serves on."""
    for worker in supervisor.processes:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGHUP)


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
