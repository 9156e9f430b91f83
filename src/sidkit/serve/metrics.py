"""What Prometheus reads. Several workers add up their figures in files of a common folder."""

from __future__ import annotations

import os
from typing import Any

from ..errors import need

__all__ = ["ServiceMetrics"]

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30)
ROWS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096, 16384, 65536)


class ServiceMetrics:
    """Counts of one process."""

    def __init__(self) -> None:
        client = need("prometheus_client", "serve", "sidkit serve")
        self.client, self.registry = client, client.CollectorRegistry()
        kept = {"registry": self.registry}
        self.requests = client.Counter(
            "sidkit_requests_total", "Requests by path and status", ["path", "status"], **kept
        )
        self.seconds = client.Histogram("sidkit_request_seconds", "Time to answer", ["path"], buckets=SECONDS, **kept)
        self.batches = client.Histogram("sidkit_batch_rows", "Vectors encoded together", buckets=ROWS, **kept)
        self.vectors = client.Counter("sidkit_vectors_total", "Vectors encoded", **kept)
        self.reloads = client.Counter("sidkit_reloads_total", "Reloads by outcome", ["outcome"], **kept)
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}

    def batch(self, rows: int) -> None:
        self.batches.observe(rows)
        self.vectors.inc(rows)

    def answered(self, path: str, status: int, seconds: float) -> None:
        pair = self._known.get((path, status))
        if pair is None:
            pair = self.requests.labels(path, str(status)), self.seconds.labels(path)
            self._known[path, status] = pair
        pair[0].inc()
        pair[1].observe(seconds)

    def text(self) -> tuple[bytes, str]:
        """The page, and its content type; of all workers where there are several."""
        registry = self.registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            from prometheus_client.multiprocess import MultiProcessCollector

            registry = self.client.CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return self.client.generate_latest(registry), self.client.CONTENT_TYPE_LATEST
