"""FSQ: the signs of a few learned directions as bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..engine.arrays import like, namespace
from ..errors import SpecError, need
from ..files.folder import require_array
from ..geometry import Array, unit
from ..rows.groups import GathersRows
from ..rows.local import LocalRows
from ..rows.seam import Rows, choose, order_of
from ..rows.sources import ArraySource
from .stage import FitContext

__all__ = ["FSQ", "FittedFSQ"]

SAMPLE = 1 << 16  # rows for PCA and ITQ
LEARNED = 1 << 18  # rows that an epoch of training goes through at most: a draw, where there are more
MOST_BITS = 1 << 12


@dataclass(frozen=True, eq=False)
class FittedFSQ:
    """bits = [x W + bias > 0], cut into equal tokens, the first bit of each the least significant."""

    directions: NDArray[Any]  # W: (d, bits)
    bias: NDArray[Any]  # (bits,)
    count: int  # tokens
    normalize: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        return (2 ** (len(self.bias) // self.count),) * self.count

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"directions": self.directions, "bias": self.bias}

    def projected(self, x: Array) -> Array:
        """x W + bias in float64: (n, bits)."""
        wide = x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()
        wide = unit(wide) if self.normalize else wide
        return wide @ like(self.directions, wide) + like(self.bias, wide)

    def token_costs(self, x: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[np.float64]]:
        """How far the projections of a row would have to move to have the bits of each code: (n, K) per token."""
        projected = self.projected(x)
        each = projected.shape[1] // self.count
        bits = (np.arange(2**each)[:, None] >> np.arange(each)) & 1  # (K, each)
        parts = (projected[:, t * each : (t + 1) * each] for t in range(self.count))
        return [np.maximum(part, 0) @ (1 - bits).T + np.maximum(-part, 0) @ bits.T for part in parts]

    def tokens(self, x: Array, codes: Array) -> Array:
        projected = self.projected(x)
        bits = projected > 0
        each = bits.shape[1] // self.count
        weights = like((2 ** np.arange(each)).astype(np.float64), projected)
        columns = [(bits[:, t * each : (t + 1) * each] * weights).sum(axis=1) for t in range(self.count)]
        return namespace(x).stack(columns, axis=1)

    def carry(self, x: Array, codes: Array) -> Array:
        return x

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NoReturn:
        raise SpecError(
            "bits of FSQ stand for sides of a plane and not for a vector; decode the tokens before them, such as "
            "codes[:, :3]"
        )


@dataclass(frozen=True)
class FSQ:
    """A joint binary code of the residual, split into tokens: ResKmeansFSQ's suffix (QARM V2; all details inferred).

        b = [x W + bias > 0] = round(sigmoid(x W + bias)),   token t = bits t*m .. t*m + m - 1, least significant first

    projection   how W is fitted: "learned" trains W and a linear decoder by reconstruction with a straight-through
                 sigmoid (AdamW; needs the torch extra), "itq" rotates principal directions so that their signs lose
                 least (deterministic), "random" takes orthogonal directions, split at the median.
    use_bias     False makes the code independent of the length of x.
    normalize    x scaled to length one first.
    """

    bits: int = 12
    tokens: int = 2
    projection: Literal["learned", "itq", "random"] = "learned"
    use_bias: bool = True
    normalize: bool = False
    epochs: int = 50
    batch: int = 8192
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5

    def __post_init__(self) -> None:
        if self.batch < 1 or self.epochs < 0 or self.bits > MOST_BITS:
            raise SpecError(f"FSQ needs a batch of at least 1, no negative epochs, and at most {MOST_BITS:,} bits")
        if not 0 < self.learning_rate < math.inf:
            raise SpecError(f"learning_rate must be positive and finite, not {self.learning_rate}")
        if not 0 <= self.weight_decay < math.inf:
            raise SpecError(f"weight_decay cannot be negative or infinite ({self.weight_decay})")
        if self.tokens < 1 or self.bits < self.tokens or self.bits % self.tokens or self.bits // self.tokens > 30:
            raise SpecError(f"{self.bits} bits cannot be split into {self.tokens} equal tokens")
        if self.projection not in ("learned", "itq", "random"):
            raise SpecError(f"projection must be 'learned', 'itq' or 'random', not {self.projection!r}")

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        if self.projection == "learned":
            need("torch", "torch", "learning an FSQ projection (or use projection='itq')")
        elif self.bits > shape[1]:
            raise SpecError(f"{self.bits} orthogonal directions do not exist in {shape[1]} dimensions")
        return level + self.tokens

    def fit(self, rows: Rows, run: FitContext) -> FittedFSQ:
        self.check(rows.shape, rows.width, run)
        seed = run.seed_of(rows.width)
        x = np.asarray(rows.sample(min(rows.shape[0], SAMPLE), seed), np.float64)
        x = unit(x) if self.normalize else x
        run.progress.start("bits", rows.shape[0])
        if self.projection == "learned":
            directions, bias = self._learn(rows, x, run)
        else:
            rng = np.random.default_rng(seed)
            fit = _itq if self.projection == "itq" else _random
            directions, bias = fit(x, self.bits, rng, self.use_bias)
        run.progress.advance(rows.shape[0])
        return FittedFSQ(directions.astype(rows.dtype), bias.astype(rows.dtype), self.tokens, self.normalize)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedFSQ:
        directions = require_array(arrays, "directions", (d, self.bits))
        return FittedFSQ(directions, require_array(arrays, "bias", (self.bits,)), self.tokens, self.normalize)

    def _learn(self, rows: Rows, x: NDArray[np.float64], run: FitContext) -> tuple[NDArray[Any], NDArray[Any]]:
        """Straight-through training from the ITQ directions and the best linear decoder of their bits.

        The result is the weights before the epoch of lowest loss; a last pass without steps measures the final ones.
        """
        need("torch", "torch", "learning an FSQ projection (or use projection='itq')")
        from .straight_through import StraightThrough

        start, bias = self._start(x, np.random.default_rng(run.seed_of(rows.width)))
        batches, n, where = self._batches(rows, run)
        training = StraightThrough(self, start, bias, _decoder_of(x @ start + bias > 0, x), where)
        lowest, best = np.inf, (start, bias)
        for epoch in range(self.epochs + 1):
            before = training.directions()
            total = training.epoch(batches(epoch), steps=epoch < self.epochs)
            if total < lowest:
                lowest, best = total, before
            run.progress.note(f"after {epoch} of {self.epochs} epochs, loss {total / n:.6f}")
        directions, offset = (np.asarray(value) for value in best)
        return directions, offset

    def _batches(self, rows: Rows, run: FitContext) -> tuple[Callable[[int], Iterator[Array]], int, Any]:
        """The shuffled batches of an epoch, as a function; the rows of an epoch; and the device they are on."""
        seed, n = run.seed_of(rows.width), min(rows.shape[0], LEARNED)
        drawn = choose(rows.shape[0], n, (*seed, 1)) if n < rows.shape[0] else np.arange(n)
        if isinstance(rows, GathersRows):
            x = rows.gathered(drawn)

            def there(epoch: int) -> Iterator[Array]:
                order = like(order_of(n, (*seed, epoch)), x.new_empty(0).long())
                return (x[part] for part in order.split(self.batch))

            return there, n, x.device
        chosen = LocalRows(ArraySource(rows.take(drawn))) if n < rows.shape[0] else rows
        return lambda epoch: chosen.batches(self.batch, (*seed, epoch)), n, "cpu"

    def _start(self, x: NDArray[np.float64], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """ITQ directions, scaled so that typical projections are of the order of one; random ones beyond d."""
        d, count = x.shape[1], min(self.bits, x.shape[1])
        directions, bias = rng.normal(size=(d, self.bits)), np.zeros(self.bits)
        directions[:, :count], bias[:count] = _itq(x, count, rng, self.use_bias)
        scale = np.abs(x @ directions + bias).mean() + 1e-12
        return directions / scale, bias / scale


def _itq(
    x: NDArray[np.float64], bits: int, rng: np.random.Generator, use_bias: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Iterative quantization (Gong and Lazebnik, 2011): principal directions, rotated towards their signs."""
    mean = x.mean(axis=0) if use_bias else np.zeros(x.shape[1])
    centred = x - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    principal = vectors[:, ::-1][:, :bits]
    principal = principal * np.where(principal[np.abs(principal).argmax(axis=0), np.arange(bits)] < 0, -1.0, 1.0)
    projected = centred @ principal
    rotation, _ = np.linalg.qr(rng.normal(size=(bits, bits)))
    turned, above, total = np.empty_like(projected), np.empty_like(projected), projected.sum(axis=0)[:, None]
    for _ in range(50):
        np.greater(np.matmul(projected, rotation, out=turned), 0, out=above)
        u, _, vt = np.linalg.svd(2 * projected.T @ above - total)  # signs are 2 above - 1
        rotation = u @ vt
    directions = principal @ rotation
    return directions, -mean @ directions


def _decoder_of(bits: NDArray[np.bool_], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The linear decoder of the bits that is nearest to x: (bits + 1, d), its last row what is added always."""
    known = np.concatenate([bits, np.ones((len(x), 1))], axis=1)
    decoder: NDArray[np.float64] = np.linalg.lstsq(known.T @ known, known.T @ x, rcond=None)[0]
    return decoder


def _random(
    x: NDArray[np.float64], bits: int, rng: np.random.Generator, use_bias: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    directions, _ = np.linalg.qr(rng.normal(size=(x.shape[1], bits)))
    return directions, -np.median(x @ directions, axis=0) if use_bias else np.zeros(bits)
