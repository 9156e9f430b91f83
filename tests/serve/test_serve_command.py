"""`sidkit serve` as a process: what it prints, SIGTERM, several workers, tokens."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from command import run
from served import Client, rows, tokenizer

for module in ("uvicorn", "starlette", "orjson", "prometheus_client"):
    pytest.importorskip(module)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve-command")
    tokenizer(folder)
    return folder


class Started:
    def __init__(self, folder, *words, **environment):
        command = [sys.executable, "-m", "sidkit", "serve", "tok", "--port", "0", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, **pipes)
        self.line = self.process.stdout.readline()
        assert self.line, self.process.communicate()[1]
        self.client = Client(int(self.line.split(":")[2].split("/")[0]))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()


def test_a_request_in_progress_is_answered_before_the_end(folder):
    started = Started(folder, "--sids", "sids.parquet")
    body = json.dumps({"vectors": rows(1, 200).tolist()}).encode()
    head = f"POST /encode HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    with socket.create_connection(("127.0.0.1", started.client.port), timeout=20) as one:
        one.sendall(head.encode() + b"\r\n\r\n" + body[:1000])
        assert started.client.get("/healthz")[0] == 200  # the service has read what was sent before
        started.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionError):  # until nobody listens any more
            while True:
                started.client.get("/healthz")
        one.sendall(body[1000:])
        assert one.recv(1000).startswith(b"HTTP/1.1 200")
    started.end()


def test_several_workers_share_the_socket_and_add_up_their_figures(folder):
    started = Started(folder, "--workers", "2")
    try:
        for _ in range(200):
            try:
                if started.client.get("/healthz")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        for _ in range(30):
            assert started.client.post("/encode", vectors=rows(1, 2).tolist())[0] == 200
        lines = started.client.get("/metrics")[1].decode().splitlines()
        counted = next(line for line in lines if line.startswith('sidkit_requests_total{path="/encode"'))
        assert float(counted.split()[-1]) == 30
    finally:
        started.end()


@pytest.mark.parametrize("workers", [1, 2])
def test_sighup_loads_a_new_tokenizer_and_loses_no_request(tmp_path, workers):
    first, _ = tokenizer(tmp_path, 0)
    (tmp_path / "other").mkdir()
    second, _ = tokenizer(tmp_path / "other", 1)
    started, x = Started(tmp_path, "--workers", str(workers), "--reload-every", "0"), rows(1, 2)
    expected = {one.digest: one.encode(x).tolist() for one in (first, second)}

    def ask():
        """The tokenizer of a right answer; connections wait while workers start."""
        status, answer = started.client.post("/encode", vectors=x.tolist())
        assert status == 200
        assert answer["codes"] == expected[answer["tokenizer"]]
        return answer["tokenizer"]

    try:
        assert [ask() for _ in range(8)] == [first.digest] * 8
        second.save(tmp_path / "tok")
        assert ask() == first.digest  # nobody looks before the signal
        started.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while [ask() for _ in range(40)] != [second.digest] * 40:  # of workers that were still starting, too
            assert time.monotonic() < end
    finally:
        started.end()


def test_a_token_from_the_environment_is_asked_for_on_loopback_too(folder):
    started = Started(folder, SIDKIT_TOKEN="a-secret-of-some-length")
    try:
        assert started.client.get("/healthz")[0] == 401
        started.client.token = "a-secret-of-some-length"
        assert json.loads(started.client.get("/healthz")[1])["status"] == "ok"
    finally:
        started.end()


def test_another_address_makes_a_token(folder):
    started = Started(folder, "--host", "0.0.0.0")
    try:
        token = started.process.stdout.readline().split()[-1]
        assert started.client.get("/metrics")[0] == 401
        started.client.token = token
        assert started.client.get("/metrics")[0] == 200
    finally:
        started.end()


@pytest.mark.parametrize(
    "words, message",
    [
        (("no-such-tok",), "no-such-tok"),
        (("tok", "--port", "70000"), "--port is 0 to 65535"),
        (("tok", "--max-batch", "0"), "batch_rows must be positive"),
        (("tok", "--sids", "nothing.parquet"), "nothing.parquet"),
        (("tok", "--token-file", "short"), "at least 16 characters"),
    ],
)
def test_bad_options_are_named_before_anything_is_served(folder, words, message):
    (folder / "short").write_text("abc\n")
    done = run("serve", *words, "--check", cwd=folder)
    assert done.returncode
    assert message in done.stderr


def test_check_says_what_would_be_served(folder):
    done = run("serve", "tok", "--sids", "sids.parquet", "--check", cwd=folder)
    assert "vectors of 12 numbers, 400 items" in done.stdout
