"""Ray started quietly, or joined. What we start we stop; a cluster that was there is only used."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from logging import getLogger
from socket import create_connection
from typing import Any

from ..errors import InputError, need

__all__ = ["Session"]

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/",  # Ray reports even that it must not report
}
LOCAL = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0" is Ray's word for: on this machine only, bound to 127.0.0.1

_users: set[int] = set()  # sessions that need the Ray that we started or joined
_numbers = count()


class Session:
    """A connection to Ray for as long as somebody needs it.

    address: None joins the cluster of $RAY_ADDRESS, or starts a Ray of our own on this machine with so many CPUs.
    """

    def __init__(self, address: str | None, cpus: int) -> None:
        self.ray = _imported()
        theirs = self.ray.is_initialized() and not _users  # whoever called ray.init looks after it
        if not theirs and not _users:
            _connect(self.ray, address or os.environ.get("RAY_ADDRESS") or "local", cpus)
        number = next(_numbers)
        if not theirs:
            _users.add(number)
        self.close = weakref.finalize(self, _leave, number, self.ray)


def _leave(number: int, ray: Any) -> None:
    if number in _users:
        _users.remove(number)
        if not _users and ray.is_initialized():
            ray.shutdown()


def _imported() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    return need("ray", "ray", "working on Ray")


def _connect(ray: Any, address: str, cpus: int) -> None:
    getLogger("ray").setLevel("ERROR")
    own: dict[str, Any] = {}
    if address == "local":
        own = {"num_cpus": max(cpus, os.cpu_count() or 1), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    elif port := _port(address):
        _require_answer(address, port)
    try:
        with _on_loopback() if own or _is_on_loopback(ray, address) else nullcontext():
            ray.init(address=address, logging_level="ERROR", log_to_driver=False, configure_logging=False, **own)
    except Exception as error:  # Ray raises plain exceptions where a machine is too busy to start it
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"cannot {'start Ray' if own else f'join the Ray cluster at {address}'}: {said}") from error
    # Ray prints the death of a worker to standard output, where results go. Progress tells of it instead.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _port(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isdigit() else 0


def _require_answer(address: str, port: int) -> None:
    """Ray waits for ever for a cluster that is not there; a connection tells within seconds."""
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    try:
        create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise InputError(f"no Ray cluster answers at {address}: {error.strerror or error}") from error


def _is_on_loopback(ray: Any, address: str) -> bool:
    """Whether a cluster is on this machine and answers at 127.0.0.1 alone, as those that we start do."""
    if address.rpartition(":")[0] not in ("127.0.0.1", "localhost"):
        return False
    try:
        create_connection((ray.util.get_node_ip_address(), _port(address)), timeout=10).close()
    except OSError:
        return True
    return False


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray replaces 127.0.0.1 by the machine's own address, unless it takes itself to be on a laptop."""
    from ray._private import ray_constants

    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    os.environ[LOCAL] = "0"  # for the processes that Ray starts
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        del os.environ[LOCAL]
