"""Queries and items in one space: a projection of their vectors, trained so that what belongs together is near.

    y = normalise(x W)                        x: (n, d), rows at length one; W: (d, dimensions)
    y = normalise(x W + relu(x H + h) V)      with a hidden layer

One projection for queries and items, or one for each. `align_training` trains them, `align_job` does so for a shop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, SpecError, StoreError
from ...files.folder import FolderFormat, require_array
from ...geometry import unit
from ..keywords.matching import Matcher, fuse, require_share

__all__ = ["AlignPlan", "Alignment", "KeywordVectors", "Projection"]

Vectors = NDArray[np.float32]
FIELDS = {"plan": dict, "facts": dict, "keywords": dict}
FORMAT = FolderFormat("sidkit-alignment", "alignment", "align again", FIELDS, limit=1 << 26)  # with its keywords
FOLDER = "projection"  # within the output of `sidkit search align`
BLOCK = 1024  # rows projected at once; short blocks are padded, so that a row's bits do not depend on its neighbours


@dataclass(frozen=True)
class AlignPlan:
    """How an alignment is trained.

        loss = l1 query_query + l2 item_item + l3 query_item

    Each term is a contrastive loss (InfoNCE) over a batch of pairs, in both directions: a pair's partner against the
    partners of the other pairs. OneSearch does not publish its weights; all are 1 here.

    dimensions      of the aligned vectors
    hidden          width of the hidden layer; 0 for a linear projection
    towers          shared: one projection for queries and items; separate: one for each
    temperature     cosines are divided by it
    batch           pairs of each kind in a step
    negatives       items drawn at random that every query of a query-item batch is compared with too: a batch alone
                    has no items that nobody clicks
    epochs          passes over the query-item pairs at most
    patience        passes without a better recall of held-out pairs before training stops
    held_out        share of the clicked queries that is left out of training and measured
    start           pca: the leading directions of all rows, which keeps their cosines; random: a Gaussian matrix
    seed            decides what is held out, the order of pairs and the random numbers
    """

    dimensions: int = 128
    hidden: int = 0
    towers: Literal["shared", "separate"] = "shared"
    l1: float = 1.0
    l2: float = 1.0
    l3: float = 1.0
    temperature: float = 0.05
    batch: int = 512
    negatives: int = 512
    epochs: int = 20
    patience: int = 3
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    held_out: float = 0.05
    start: Literal["pca", "random"] = "pca"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("dimensions", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("hidden", "negatives", "seed", "l1", "l2", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SpecError(f"{name} must be at least 0 and finite, not {getattr(self, name)}")
        for name in ("l3", "temperature", "learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise SpecError(f"{name} must be positive and finite, not {getattr(self, name)}")
        if self.batch < 2:
            raise SpecError(f"batch must be at least 2, not {self.batch}: a pair is compared with others of its batch")
        if not 0 < self.held_out < 1:
            raise SpecError(f"held_out must lie between 0 and 1, not {self.held_out}")
        if self.towers not in ("shared", "separate"):
            raise SpecError(f"towers must be shared or separate, not {self.towers!r}")
        if self.start not in ("pca", "random"):
            raise SpecError(f"start must be pca or random, not {self.start!r}")


@dataclass(frozen=True, eq=False)
class Projection:
    """The weights of a projection, by name: linear (d, m); with a hidden layer also hidden (d, h), bias (h,) and
    out (h, m)."""

    weights: Mapping[str, Vectors]

    @property
    def shape(self) -> tuple[int, int]:
        """Dimensions that come in, and that go out."""
        d, m = self.weights["linear"].shape
        return d, m

    def __call__(self, x: Any) -> Vectors:
        """Rows (n, d) of any length -> (n, m) of length one; a zero row stays zero."""
        if np.ndim(x) != 2 or np.shape(x)[1] != self.shape[0]:
            raise InputError(
                f"this alignment projects {self.shape[0]}-dimensional rows; these have shape {np.shape(x)}"
            )
        out = np.empty((len(x), self.shape[1]), np.float32)
        block = np.zeros((BLOCK, self.shape[0]), np.float32)
        for start in range(0, len(out), BLOCK):
            rows = np.asarray(x[start : start + BLOCK], np.float32)
            block[: len(rows)] = unit(rows)
            y = block @ self.weights["linear"]
            if "hidden" in self.weights:
                y += np.maximum(block @ self.weights["hidden"] + self.weights["bias"], 0.0) @ self.weights["out"]
            out[start : start + len(rows)] = unit(y * block.any(axis=1, keepdims=True))[: len(rows)]
        return out


@dataclass(frozen=True, eq=False)
class KeywordVectors:
    """A dictionary whose keywords are mixed into aligned vectors (`keywords.fuse`)."""

    keywords: tuple[str, ...]
    queries: Vectors  # (k, m), the keywords by the projection of queries
    items: Vectors  # (k, m), by that of items
    weight: float = 0.5

    @cached_property
    def matcher(self) -> Matcher:
        """Finds the keywords in texts."""
        return Matcher(self.keywords)


@dataclass(frozen=True, eq=False)
class Alignment:
    """Trained projections, ready for vectors of queries and items; with keywords, for their texts too."""

    query: Projection
    item: Projection
    plan: AlignPlan
    keywords: KeywordVectors | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # what is known of the training, plain values

    def queries(self, x: Any, texts: Sequence[str | None] | None = None) -> Vectors:
        """Aligned vectors of queries: (n, d) -> (n, dimensions); texts are needed where it was made with keywords."""
        return self._fused(self.query(x), texts, "queries")

    def items(self, x: Any, texts: Sequence[str | None] | None = None) -> Vectors:
        """Aligned vectors of items, likewise."""
        return self._fused(self.item(x), texts, "items")

    def _fused(self, rows: Vectors, texts: Sequence[str | None] | None, role: str) -> Vectors:
        if self.keywords is None:
            return rows
        if texts is None or len(texts) != len(rows):
            count = "none" if texts is None else len(texts)
            raise InputError(f"this alignment uses keywords: give a text for each of {len(rows)} {role}, not {count}")
        vectors = self.keywords.queries if role == "queries" else self.keywords.items
        return fuse(rows, self.keywords.matcher.matrix(texts), vectors, self.keywords.weight)

    def save(self, path: str | Path) -> Path:
        """Write config.json and model.safetensors to a folder, in one step."""
        towers = {"query": self.query} if self.item is self.query else {"query": self.query, "item": self.item}
        arrays = {f"{name}.{key}": value for name, tower in towers.items() for key, value in tower.weights.items()}
        state: dict[str, Any] = {"plan": asdict(self.plan), "facts": dict(self.facts), "keywords": {}}
        if self.keywords is not None:
            state["keywords"] = {"keywords": list(self.keywords.keywords), "weight": self.keywords.weight}
            arrays["keywords.query"] = self.keywords.queries
            if self.item is not self.query:
                arrays["keywords.item"] = self.keywords.items
        FORMAT.write(Path(path), state, arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Alignment:
        """Read an alignment: its own folder, or the output of `sidkit search align` that contains it."""
        folder = Path(path)
        folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
        if not folder.is_dir():
            raise StoreError(f"no such alignment folder: {folder}; `sidkit search align` writes one")
        state, arrays = FORMAT.read(folder)
        try:
            plan = AlignPlan(**state["plan"])
            query = _projection(arrays, "query", plan)
            item = query if plan.towers == "shared" else _projection(arrays, "item", plan)
            keywords = _keywords(state["keywords"] or None, arrays, plan)
        except (KeyError, TypeError, SpecError, StoreError) as error:
            raise StoreError(f"the alignment {folder} cannot be read: {error}; align again") from error
        return cls(query, item, plan, keywords, state["facts"])


def _projection(arrays: Mapping[str, NDArray[Any]], name: str, plan: AlignPlan) -> Projection:
    weights = {"linear": require_array(arrays, f"{name}.linear", (None, plan.dimensions))}
    if plan.hidden:
        d = len(weights["linear"])
        weights["hidden"] = require_array(arrays, f"{name}.hidden", (d, plan.hidden))
        weights["bias"] = require_array(arrays, f"{name}.bias", (plan.hidden,))
        weights["out"] = require_array(arrays, f"{name}.out", (plan.hidden, plan.dimensions))
    return Projection(weights)


def _keywords(state: Any, arrays: Mapping[str, NDArray[Any]], plan: AlignPlan) -> KeywordVectors | None:
    if state is None:
        return None
    words = tuple(map(str, state["keywords"]))
    queries = require_array(arrays, "keywords.query", (len(words), plan.dimensions))
    shared = plan.towers == "shared"
    items = queries if shared else require_array(arrays, "keywords.item", (len(words), plan.dimensions))
    require_share(state["weight"])
    return KeywordVectors(words, queries, items, float(state["weight"]))
