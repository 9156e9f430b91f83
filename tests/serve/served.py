"""A service on this machine, in a thread, and a client."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing, contextmanager

import numpy as np

import sidkit
from sidkit.serve.options import ServeOptions
from sidkit.sids.origin import Origin
from sidkit.web.listen import bind

ARROW = "application/vnd.apache.arrow.stream"
N, D, SIZES = 400, 12, (16, 8, 4)


def rows(seed=0, n=N):
    return np.random.default_rng(seed).normal(size=(n, D)).astype(np.float32)


def tokenizer(folder, seed=0):
    """A fitted tokenizer in folder/tok, and a table of SIDs of its rows."""
    fitted = sidkit.prq_kmeans(SIZES, iterations=3).fit(rows(), seed=seed)
    fitted.save(folder / "tok")
    origin = Origin(tokenizer="tok", tokenizer_digest=fitted.digest)
    table = sidkit.SidTable([f"p{i}" for i in range(N)], fitted.encode(rows()), fitted.sizes, origin=origin)
    table.to_parquet(folder / "sids.parquet")
    return fitted, table


class Client:
    def __init__(self, port, token=None):
        self.port, self.token = port, token

    def call(self, method, path, body=b"", kind="application/json", **headers):
        """Status, body and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        if self.token:
            headers.setdefault("authorization", f"Bearer {self.token}")
        if method == "POST":
            headers.setdefault("content-type", kind)
        with closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers

    def post(self, path, **fields):
        status, content, _ = self.call("POST", path, json.dumps(fields).encode())
        return status, json.loads(content)

    def get(self, path):
        status, content, _ = self.call("GET", path)
        return status, content


@contextmanager
def served(options: ServeOptions):
    """A client, and the service behind it."""
    import uvicorn

    from sidkit.serve.app import build
    from sidkit.web.connections import limited_protocol

    app = build(options)
    with bind("127.0.0.1", [0]) as listener:
        config = uvicorn.Config(app, http=limited_protocol("serve", 200), log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Client(listener.getsockname()[1], options.token), app.state.service
        finally:
            server.should_exit = True
            thread.join()
