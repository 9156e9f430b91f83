"""What a service is made of, and its limits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import SpecError

__all__ = ["ServeOptions"]


@dataclass(frozen=True)
class ServeOptions:
    """Paths are texts, so that a worker process can be told them.

    tokenizer     the folder of `sidkit fit`
    sids          SIDs of items to look up: a file of `sidkit encode`, or a registry of `sidkit publish`
    encoder       the folder of an encoder, which turns texts into vectors
    retriever     a run of `sidkit train`, for /recommend
    search        a run of `sidkit search train`, for /search
    token         what clients must send (Authorization: Bearer ...); None on loopback addresses
    body_bytes    the largest body; a larger one gets 413
    batch_rows    most vectors, texts, items or histories of a request; more get 422
    queue_rows    most vectors that wait to be encoded; beyond them 429
    queue_calls   most calls of models that wait; beyond them 429
    seconds       longest time for a body to come, and for an answer; then 408 and 503
    reload_every  seconds between looks for a new tokenizer; 0: only at SIGHUP
    """

    tokenizer: str
    sids: str | None = None
    encoder: str | None = None
    retriever: str | None = None
    search: str | None = None
    token: str | None = None
    body_bytes: int = 64 << 20
    batch_rows: int = 1 << 16
    queue_rows: int = 1 << 18
    queue_calls: int = 64
    seconds: float = 30.0
    reload_every: float = 2.0

    def __post_init__(self) -> None:
        for name in ("body_bytes", "batch_rows", "queue_rows", "queue_calls", "seconds"):
            if getattr(self, name) <= 0:
                raise SpecError(f"{name} must be positive, not {getattr(self, name)}")
        if self.reload_every < 0:
            raise SpecError(f"reload_every must be at least 0, not {self.reload_every}")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServeOptions:
        values: dict[str, Any] = json.loads(text)
        return cls(**values)
