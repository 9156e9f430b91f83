"""The service under load, sent from the same machine: latency, saturation, batches, and memory over time.

    python benchmarks/serve.py -o benchmarks/results/serve.json
    python benchmarks/serve.py -o benchmarks/results/serve_soak.json --seconds 0 --rounds 0 --soak 600

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
        self.parts, self.missing, self.waiter = [], 0, None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def connection_lost(self, error) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        self.missing -= len(data)
        if self.missing > 0:
            return
        answer = b"".join(self.parts)
        head = answer.find(b"\r\n\r\n")
        if head >= 0:
            at = answer[:head].lower().find(b"content-length:")
            self.missing = head + 4 + int(answer[at + 15 : answer.find(b"\r\n", at)]) - len(answer)
        self.parts = [answer]
        if head >= 0 and self.missing == 0:
            self.parts = []
            self.waiter.set_result((answer[9:12], memoryview(answer)[head + 4 :]))

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


class Batch:
    """Rows as an Arrow body, and the codes that the library gives for them."""

    def __init__(self, fitted, x) -> None:
        column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), D)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("embedding", column.type)])) as writer:
            writer.write_table(pa.table({"embedding": column}))
        self.request = post("/encode", bytes(sink.getvalue()), "application/vnd.apache.arrow.stream")
        self.expected = fitted.encode(x)

    async def ask(self, load: Load, client: Client) -> None:
        status, body = await client.ask(self.request)
        load.done += 1
        if status != b"200":
            load.wrong += 1
            return
        with pa.ipc.open_stream(body) as stream:
            codes = np.asarray(stream.read_all()["codes"].combine_chunks().flatten()).reshape(self.expected.shape)
        load.wrong += not np.array_equal(codes, self.expected)


async def batches(load: Load, fitted, x, rows: int, pid: int, rounds: int, connections: int = 3) -> dict:
    """Rows a second by Arrow bodies over a few connections, and by the library in this process, in turn.

    A connection sends its next body when it has the answer to the last one. The CPU seconds of the server alone are
    counted too: the cores also send the bodies and compare the answers.
    """
    requests = max(4, 131_072 // rows)  # of a connection in a round
    batch, served, own = Batch(fitted, x[:rows]), [], []
    clients = [await load.connect() for _ in range(connections)]

    async def ask(client: Client) -> None:
        for _ in range(requests):
            await batch.ask(load, client)

    total, ours, theirs = connections * requests * rows, 0.0, 0.0
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(connections * requests):
            fitted.encode(x[:rows])
        own.append(total / (time.perf_counter() - began))
        theirs += time.process_time() - cpu
        began, cpu = time.perf_counter(), cpu_seconds(pid)
        await asyncio.gather(*map(ask, clients))
        served.append(total / (time.perf_counter() - began))
        ours += cpu_seconds(pid) - cpu
    ratio = float(np.median(np.array(served) / np.array(own)))
    return {
        "rows": rows, "dtype": str(x.dtype), "connections": connections, "over_library": round(ratio, 3),
        "rows_per_s": round(float(np.median(served))), "library_rows_per_s": round(float(np.median(own))),
        "cpu_us_per_row": round(1e6 * ours / (rounds * total), 3),
        "library_cpu_us_per_row": round(1e6 * theirs / (rounds * total), 3),
    }  # fmt: skip


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """MB in memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement of single vectors; 0: none")
    parser.add_argument("--rounds", type=int, default=5, help="of batches, the library and the service in turn")
    parser.add_argument("--soak", type=float, default=30.0, help="seconds at full load")
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
    words = f"--seconds {asked.seconds:g} --rounds {asked.rounds} --soak {asked.soak:g}"
    figures = {
        "command": f"python benchmarks/serve.py {words}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load from the same machine",
        "python": platform.python_version(), "sidkit": sidkit.__version__, "sizes": SIZES, "dimension": D, "seed": 0,
        "load_of_the_machine": [round(one, 2) for one in os.getloadavg()],
    }  # fmt: skip
    await load.paced(200, 3)  # warm
    if asked.seconds:
        latencies = await load.paced(500, asked.seconds)
        p50, p99 = np.percentile(latencies, [50, 99]) * 1e3
        figures["at_500_per_s"] = {"p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "requests": len(latencies)}
        saturated = {f"{many} connections": round(await load.saturate(many, asked.seconds)) for many in (8, 64)}
        figures["saturated_per_s"] = saturated
    if asked.rounds:
        kinds = [(x, 8_192), (x, 65_536), (x.astype(np.float16), 65_536)]
        figures["batches"] = [await batches(load, fitted, rows, many, pid, asked.rounds) for rows, many in kinds]
    if asked.soak:
        figures["soak"] = await soak(load, fitted, x, pid, asked.soak)
    return figures | {"answers": load.done, "wrong_answers": load.wrong}


async def soak(load: Load, fitted, x, pid: int, seconds: float) -> dict:
    """Single vectors over 32 connections and Arrow batches over two more, one after the other."""
    memory, end, kinds = [], time.perf_counter() + seconds, [Batch(fitted, x[:rows]) for rows in (512, 8_192)]

    async def ask(batch: Batch) -> int:
        client, done = await load.connect(), 0
        while time.perf_counter() < end:
            await batch.ask(load, client)
            done += 1
        return done

    asking = [asyncio.create_task(ask(batch)) for batch in kinds]
    rate = await load.saturate(32, seconds, lambda: memory.append(resident(pid)))
    done = [await one for one in asking]
    minutes = [round(memory[i * (len(memory) - 1) // 10], 1) for i in range(11)]
    return {
        "seconds": seconds, "answers_per_s": round(rate), "batches of 512": done[0], "batches of 8192": done[1],
        "memory_mb_by_tenths_of_the_time": minutes,
    }  # fmt: skip


if __name__ == "__main__":
    main()
