"""How a search model is trained, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import SpecError
from ..bart.shape import BartShape, preset

__all__ = ["SCHEDULES", "SearchPlan", "plan_for"]

MOST = 1 << 18  # of everything that is counted
LEAST = 4  # tokens of an input: its beginning and end, and the vectors of a history, which take half of it


@dataclass(frozen=True)
class SearchPlan:
    """The paper's settings by default; what it leaves open is marked inferred.

    epochs          of the three stages: content, pairs, personal
    warmup          steps over which the learning rate rises from zero (inferred)
    decay           how the learning rate falls over a stage: not at all, or linearly to zero (inferred)
    weight_decay    of AdamW (inferred)
    words           tokens of texts, where a tokenizer is trained (inferred; BART's own has 50,265)
    longest         tokens of an input at most (inferred)
    from_centroids  SID tokens start from the tokenizer's centroids instead of at random (inferred)
    history, recent_queries, long_history    how many are used of each (5 is the paper's short window)
    history_vectors the long history as that many vectors before the input, through a query-former; 0 for none
    cold_users      the SIDs of a user without clicks: of the items most clicked for the query, or none
    precision       of matrix products on a GPU: bfloat16, which "auto" is, or float32; on a CPU they are float32
    """

    shape: BartShape = field(default_factory=BartShape)
    epochs: tuple[int, int, int] = (4, 3, 6)
    batch: int = 512
    learning_rate: float = 5e-5
    warmup: int = 0
    decay: Literal["none", "linear"] = "none"
    weight_decay: float = 0.01
    words: int = 16_000
    longest: int = 128
    templates: str = "en"
    from_centroids: bool = True
    history: int = 5
    recent_queries: int = 3
    long_history: int = 50
    history_vectors: int = 0
    cold_users: Literal["query", "none"] = "query"
    beams: int = 128
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("words", 1), ("longest", LEAST), ("beams", 1)):
            if getattr(self, name) < least:
                raise SpecError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("batch", "words", "longest", "beams", "history", "recent_queries", "long_history"):
            if getattr(self, name) > MOST:
                raise SpecError(f"{name} must be at most {MOST:,}, not {getattr(self, name)}")
        for name in ("warmup", "weight_decay", "history", "recent_queries", "long_history", "history_vectors", "seed"):
            if getattr(self, name) < 0:
                raise SpecError(f"{name} must not be negative, not {getattr(self, name)}")
        if len(self.epochs) != 3 or min(self.epochs) < 0 or not sum(self.epochs):
            raise SpecError(f"epochs are three numbers from 0, one for each stage, and not all 0; not {self.epochs}")
        if self.learning_rate <= 0:
            raise SpecError(f"the learning rate must be positive, not {self.learning_rate}")
        if self.decay not in ("none", "linear"):
            raise SpecError(f"decay must be none or linear, not {self.decay!r}")
        if self.cold_users not in ("query", "none"):
            raise SpecError(f"cold_users must be query or none, not {self.cold_users!r}")
        if self.precision not in ("auto", "bfloat16", "float32"):
            raise SpecError(f"precision must be auto, bfloat16 or float32, not {self.precision!r}")
        if self.longest > self.shape.positions:
            raise SpecError(f"inputs of {self.longest} tokens do not fit {self.shape.positions} positions")
        if self.history_vectors > self.longest // 2:
            raise SpecError(f"{self.history_vectors} vectors of a history leave too little of {self.longest} tokens")


# By the paper's schedule a fresh model learns next to nothing on a small shop: its steps are too few and too small.
SCHEDULES: dict[str, dict[str, Any]] = {
    "tiny": {"batch": 64, "learning_rate": 1e-3, "warmup": 20, "decay": "linear"},
    "small": {"batch": 128, "learning_rate": 5e-4, "warmup": 100, "decay": "linear"},
    "base": {},
}


def plan_for(name: str, **options: Any) -> SearchPlan:
    """The plan of a preset: its sizes and schedule, and these options where they are not None."""
    shape = preset(name)
    given = {key: value for key, value in options.items() if value is not None}
    return SearchPlan(**{"shape": shape} | SCHEDULES[name] | given)
