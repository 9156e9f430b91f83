"""Ray is started quietly and on this machine only, or joined."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ray_data import needs_ray
from typer.testing import CliRunner

import sidkit
from sidkit.cli import app
from sidkit.fleet import session

pytestmark = needs_ray


class FakeRay:
    """Ray as far as `Session` uses it before it runs."""

    __version__ = "9.9"

    def __init__(self, address):
        self.util = SimpleNamespace(get_node_ip_address=lambda: address)
        self.started = []

    def init(self, **settings):
        self.started.append((settings, os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")))


def test_a_ray_that_would_listen_on_the_network_is_not_started():
    ray = FakeRay("10.1.2.3")
    with pytest.raises(sidkit.SidkitError, match=r"Ray 9\.9 cannot be bound to 127\.0\.0\.1; set RAY_ENABLE_WINDOWS"):
        session._connect(ray, "local", 2)
    assert ray.started == []


def test_ray_is_started_on_loopback_without_a_dashboard_or_logs(monkeypatch):
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    ray = FakeRay("127.0.0.1")
    session._connect(ray, "local", 99)
    ((settings, one_machine),) = ray.started
    assert settings["_node_ip_address"] == "127.0.0.1"
    assert (settings["num_cpus"], settings["include_dashboard"], settings["log_to_driver"]) == (99, False, False)
    assert one_machine == "0"  # for the processes that Ray starts
    assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "1"  # as it was before


def test_ray_is_imported_without_usage_reports_and_without_output(monkeypatch):
    seen = {}
    monkeypatch.setattr(session, "need", lambda *_: seen.update(os.environ))
    for name in list(os.environ):
        if name.startswith("RAY_"):
            monkeypatch.delenv(name)
    for name in session.NO_USAGE_REPORTS:  # so that they are gone again after this test
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    session._import_ray()
    assert seen["RAY_USAGE_STATS_ENABLED"] == "0"
    assert seen["RAY_USAGE_STATS_REPORT_URL"] == "http://127.0.0.1:9/"
    assert seen["RAY_DEDUP_LOGS_SKIP_REGEX"] == "."
    assert "RAY_DEDUP_LOGS_SKIP_REGEX" not in os.environ


def test_ray_is_quiet_and_on_loopback(ray_pool):
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["RAY_USAGE_STATS_REPORT_URL"] == "http://127.0.0.1:9/"
    assert [node["NodeManagerAddress"] for node in ray_pool.ray.nodes()] == ["127.0.0.1"]


def test_without_ray_the_extra_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(sidkit.SidkitError, match=r"working on Ray needs the 'ray' extra: pip install 'sidkit\[ray\]'"):
        sidkit.on_ray(data[1])


def test_a_cluster_that_is_not_there_is_an_error_at_once(data):
    script = f"import sidkit; sidkit.on_ray({str(data[1])!r}, address='127.0.0.1:1')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "no Ray cluster answers at 127.0.0.1:1" in done.stderr


def test_ray_stands_with_or_without_an_address():
    for words in (["--ray"], ["--ray", "--seed", "1"], ["--ray", "auto"]):
        ended = CliRunner().invoke(app, ["fit", "-", "-o", "tok", *words])
        assert "JSON lines come to this process alone" in str(ended.exception), ended.output
