"""A PostgreSQL server of Debian's package for the tests of registries, on a socket of this machine.

Started once per run of the tests; a registry has a schema of its own. Where there is no package (apt-get install
postgresql) or no psycopg, the tests are skipped with that reason.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest

_numbers = count()


def programs():
    """The folder of the server's programs, or None."""
    found = [Path(name) for name in (shutil.which("initdb"),) if name]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    return found[0].parent if found else None


def other_user():
    """PostgreSQL refuses to run as root: whom to run it as then."""
    if os.getuid():
        return {}
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    user = next((name for name in ("postgres", "nobody") if name in known), None)
    if user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'")
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid}


@pytest.fixture(scope="session")
def postgres():
    """The address of a server: postgresql:///postgres?host=..., to which a schema can be added."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    user = other_user()
    home = Path(tempfile.mkdtemp(prefix="sidkit-pg-"))  # the folders of pytest are closed to other users
    if user:
        os.chown(home, user["user"], user["group"])
    try:
        yield from _served(folder, home, user)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _served(folder, home, user):
    data = home / "data"
    initdb = [folder / "initdb", "-D", data, "-U", "sidkit", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=home, **user)
    settings = ("listen_addresses=", f"unix_socket_directories={home}", "fsync=off", "max_connections=40")
    command = [folder / "postgres", "-D", data, *(word for one in settings for word in ("-c", one))]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, **user)
    try:
        address = f"postgresql:///postgres?host={home}&user=sidkit"
        _wait_for(address, server, home / "log")
        yield address
    finally:
        server.send_signal(signal.SIGINT)  # ends connections and the server
        server.wait(30)


def _wait_for(address, server, log):
    import psycopg

    for _ in range(300):
        assert server.poll() is None, log.read_text()
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"no answer from PostgreSQL: {log.read_text()}")


@pytest.fixture(params=["sqlite", "postgres"])
def registry_address(request, tmp_path):
    """Where a new registry can be made: a file, and a schema of the server."""
    if request.param == "sqlite":
        return str(tmp_path / "registry.db")
    return f"{request.getfixturevalue('postgres')}&schema=test_{os.getpid()}_{next(_numbers)}"
