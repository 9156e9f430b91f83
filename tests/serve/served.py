"""A service on this machine, in a thread, and a client."""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
import pytest

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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
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


def in_a_thread(call):
    """Tests of pages leave an event loop in the main thread, in which no other can run."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def fuzzed(client, examples):
    """Requests drawn from the description of a service, valid and not; how many.

    Every answer has a status, a type and a content as described, and none is a 5xx.
    """
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import load_all_checks
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    load_all_checks()
    described = [status_code_conformance, content_type_conformance, response_schema_conformance]
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")
    quick = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    seen = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            if mode == schemathesis.GenerationMode.NEGATIVE and operation.method == "get":
                continue

            @quick
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case):
                nonlocal seen
                answer = case.call(timeout=60)
                seen += 1
                assert answer.status_code < 500, (case.body, answer.text)
                case.validate_response(answer, checks=described)

            in_a_thread(ask)
    return seen
