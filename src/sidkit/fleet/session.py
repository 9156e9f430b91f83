"""A connection to Ray: to a cluster that exists, or to one that is started here and stopped at the end."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from logging import getLogger
from socket import create_connection
from typing import Any

from ..errors import InputError, need

__all__ = ["Session"]

LOOPBACK = "127.0.0.1"
NO_USAGE_REPORTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_REPORT_URL": f"http://{LOOPBACK}:9/",  # Ray reports even that reports are off
}
# Ray prints the death of a worker to standard output, where results go; progress counts it as a retry instead.
# Messages that match this expression are dropped. Ray reads the variable once, when it is imported: in a process that
# imported Ray before, what Ray prints is up to that process.
DROPPED_MESSAGES = ("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
ONE_MACHINE = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray then binds to 127.0.0.1, on every platform

_users: set[int] = set()  # sessions that need the Ray that we started or joined
_numbers = count()


class Session:
    """A connection to Ray, closed when its last user closes it.

    address: None joins the cluster of $RAY_ADDRESS, or starts Ray on this machine with at least `cpus` CPUs.
    """

    def __init__(self, address: str | None, cpus: int) -> None:
        self.ray = _import_ray()
        started_by_caller = self.ray.is_initialized() and not _users  # whoever called ray.init also shuts it down
        if not started_by_caller and not _users:
            _connect(self.ray, address or os.environ.get("RAY_ADDRESS") or "local", cpus)
        number = next(_numbers)
        if not started_by_caller:
            _users.add(number)
        self.close = weakref.finalize(self, _leave, number, self.ray)


def _leave(number: int, ray: Any) -> None:
    if number in _users:
        _users.remove(number)
        if not _users and ray.is_initialized():
            ray.shutdown()


def _import_ray() -> Any:
    for name, value in NO_USAGE_REPORTS.items():
        os.environ.setdefault(name, value)
    name, expression = DROPPED_MESSAGES
    with _variable(name, os.environ.get(name, expression)):
        return need("ray", "ray", "working on Ray")


def _connect(ray: Any, address: str, cpus: int) -> None:
    getLogger("ray").setLevel("ERROR")
    settings: dict[str, Any] = {}
    if address == "local":
        settings = {"num_cpus": max(cpus, os.cpu_count() or 1), "include_dashboard": False}
        settings["_node_ip_address"] = LOOPBACK
    elif port := _port(address):
        _require_answer(address, port)
    try:
        with _on_loopback(ray) if settings or _is_on_loopback(ray, address) else nullcontext():
            ray.init(address=address, logging_level="ERROR", log_to_driver=False, configure_logging=False, **settings)
    except InputError:
        raise
    except Exception as error:  # Ray raises plain exceptions where a machine is too busy to start it
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        action = f"join the Ray cluster at {address}" if not settings else "start Ray"
        raise InputError(f"cannot {action}: {reason}") from error


def _port(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isdigit() else 0


def _require_answer(address: str, port: int) -> None:
    """Ray waits forever for a cluster that is not there; a connection fails within seconds."""
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    try:
        create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise InputError(f"no Ray cluster answers at {address}: {error.strerror or error}") from error


def _is_on_loopback(ray: Any, address: str) -> bool:
    """Whether a cluster is on this machine and answers at 127.0.0.1 alone, as those that we start do."""
    if address.rpartition(":")[0] not in (LOOPBACK, "localhost"):
        return False
    try:
        create_connection((ray.util.get_node_ip_address(), _port(address)), timeout=10).close()
    except OSError:
        return True
    return False


@contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Bind Ray to 127.0.0.1, which it otherwise replaces by the machine's address, open to the network.

    Ray has no option for this. Its variable is read once, when Ray is imported, into a constant; a process may have
    imported Ray before, or may join a cluster of several machines later, where the constant must be true. So the
    variable is set for the processes that Ray starts, and the constant, which is private, for this one. pyproject.toml
    limits Ray to versions that were checked. Where a version does not have the constant, the check below refuses to
    start rather than listen on the network.
    """
    constants: Any = sys.modules.get("ray._private.ray_constants")
    before = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    with _variable(*ONE_MACHINE):
        if before is not None:
            constants.ENABLE_RAY_CLUSTER = False
        try:
            if ray.util.get_node_ip_address() != LOOPBACK:
                raise InputError(
                    f"Ray {ray.__version__} cannot be bound to {LOOPBACK}; set {'='.join(ONE_MACHINE)} before Ray is "
                    "imported, or give the address of a running cluster"
                )
            yield
        finally:
            if before is not None:
                constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """An environment variable for the length of a block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
