"""The service under load, sent from the same machine: latency, saturation, batches, and memory over time.

    python benchmarks/serve.py -o benchmarks/results/serve.json --soak 600

Every answer is compared, byte for byte, with that of the library for the same vector. Latency is measured in an open
loop: requests are due at fixed times, and one that is late counts from the time it was due. The server is one process;
the load comes from a second one on the same two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import uvloop

import sidkit

N, D, SIZES = 20_000, 128, (1024, 512, 128)


class Client(asyncio.Protocol):
    """One connection: a request at a time, its answer compared with what is expected."""

    def __init__(self) -> None:
        self.buffer, self.waiter = b"", None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def connection_lost(self, error) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.buffer.lower().find(b"content-length:")
        length = int(self.buffer[at + 15 : self.buffer.find(b"\r\n", at)])
        if len(self.buffer) >= head + 4 + length:
            status, body = self.buffer[9:12], self.buffer[head + 4 : head + 4 + length]
            self.buffer = self.buffer[head + 4 + length :]
            self.waiter.set_result((status, body))

    async def ask(self, request: bytes) -> tuple[bytes, bytes]:
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiter


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Load:
    """Single vectors and the answers that the library gives for them."""

    def __init__(self, fitted, x, port: int) -> None:
        self.port, codes = port, fitted.encode(x)
        sids = sidkit.SidTable(np.arange(len(x)), codes, fitted.sizes).strings().to_pylist()
        self.requests = [post("/encode", orjson.dumps({"vectors": [row.tolist()]})) for row in x]
        self.answers = [
            orjson.dumps({"tokenizer": fitted.digest, "codes": [one], "sids": [sid]})
            for one, sid in zip(codes.tolist(), sids, strict=True)
        ]
        self.wrong = self.done = 0

    async def connect(self) -> Client:
        _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", self.port)
        return client

    async def one(self, client: Client, at: int) -> None:
        status, body = await client.ask(self.requests[at])
        self.done += 1
        self.wrong += status != b"200" or body != self.answers[at]

    async def paced(self, rate: float, seconds: float) -> list[float]:
        """Latencies of an open loop."""
        free: asyncio.Queue[Client] = asyncio.Queue()
        for _ in range(64):
            free.put_nowait(await self.connect())
        latencies, tasks, began = [], set(), time.perf_counter()

        async def send(i: int, due: float) -> None:
            client = await free.get()
            await self.one(client, i % N)
            latencies.append(time.perf_counter() - due)
            free.put_nowait(client)

        for i in range(int(rate * seconds)):
            due = began + i / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(send(i, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        return latencies

    async def saturate(self, connections: int, seconds: float, watch=None) -> float:
        """Requests a second of a closed loop."""
        before, end = self.done, time.perf_counter() + seconds

        async def loop(first: int) -> None:
            client, at = await self.connect(), first
            while time.perf_counter() < end:
                await self.one(client, at % N)
                at += connections

        loops = [asyncio.create_task(loop(i)) for i in range(connections)]
        while watch is not None and time.perf_counter() < end:
            watch()
            await asyncio.sleep(min(5.0, max(end - time.perf_counter(), 0.01)))
        await asyncio.gather(*loops)
        return (self.done - before) / seconds


async def batches(load: Load, fitted, x, rows: int, rounds: int, connections: int = 3) -> dict:
    """Rows a second by Arrow bodies over a few connections, and by the library in this process, in turn."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(x[:rows].ravel()), D)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("embedding", column.type)])) as writer:
        writer.write_table(pa.table({"embedding": column}))
    request = post("/encode", bytes(sink.getvalue()), "application/vnd.apache.arrow.stream")
    expected, served, own = fitted.encode(x[:rows]), [], []
    clients = [await load.connect() for _ in range(connections)]

    async def ask(client: Client) -> None:
        status, body = await client.ask(request)
        with pa.ipc.open_stream(body) as stream:
            codes = np.asarray(stream.read_all()["codes"].combine_chunks().flatten()).reshape(rows, -1)
        load.wrong += status != b"200" or not np.array_equal(codes, expected)

    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(connections):
            fitted.encode(x[:rows])
        own.append(connections * rows / (time.perf_counter() - began))
        began = time.perf_counter()
        await asyncio.gather(*map(ask, clients))
        served.append(connections * rows / (time.perf_counter() - began))
    ratio = float(np.median(np.array(served) / np.array(own)))
    return {
        "rows": rows, "dtype": str(x.dtype), "connections": connections, "over_library": round(ratio, 3),
        "rows_per_s": round(float(np.median(served))), "library_rows_per_s": round(float(np.median(own))),
    }  # fmt: skip


def resident(pid: int) -> float:
    """MB in memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--soak", type=float, default=60.0)
    asked = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(65_536, D)).astype(np.float32)
    fitted = sidkit.prq_kmeans(SIZES, iterations=5).fit(x, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(Path(folder) / "tok")
        command = [sys.executable, "-m", "sidkit", "serve", "tok", "--port", "0"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline().split(":")[2].split("/")[0])
            figures = uvloop.run(measured(Load(fitted, x[:N], port), fitted, x, server.pid, asked))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    print(json.dumps(figures, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(figures, indent=1) + "\n")


async def measured(load: Load, fitted, x, pid: int, asked) -> dict:
    await load.paced(200, 3)  # warm
    latencies = await load.paced(500, asked.seconds)
    saturated = [await load.saturate(many, asked.seconds) for many in (8, 64)]
    kinds = [(x, 8_192), (x, 65_536), (x.astype(np.float16), 65_536)]
    batch = [await batches(load, fitted, rows, many, 9) for rows, many in kinds]
    memory: list[float] = []
    soak = await load.saturate(32, asked.soak, lambda: memory.append(resident(pid)))
    p50, p99 = np.percentile(latencies, [50, 99]) * 1e3
    return {
        "command": f"python benchmarks/serve.py --seconds {asked.seconds:g} --soak {asked.soak:g}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load from the same machine",
        "python": platform.python_version(), "sidkit": sidkit.__version__, "sizes": SIZES, "dimension": D,
        "at_500_per_s": {"p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "requests": len(latencies)},
        "saturated_per_s": {"8 connections": round(saturated[0]), "64 connections": round(saturated[1])},
        "batches": batch,
        "soak": {
            "seconds": asked.soak, "requests_per_s": round(soak),
            "memory_mb": {"after 10 %": round(memory[len(memory) // 10], 1), "at the end": round(memory[-1], 1)},
        },
        "answers": load.done, "wrong_answers": load.wrong,
    }  # fmt: skip


if __name__ == "__main__":
    main()
