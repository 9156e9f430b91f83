"""Random numbers that any part of the work can look up again: what an index draws depends on nothing but the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["gaussian", "stream", "uniform"]

STREAMS = (
    *("categories", "products", "items", "appeal", "world", "users", "activity", "capitals"),
    *("sessions", "lengths", "leaves", "intents", "refine", "times"),
    *("log", "target", "quality"),
)


def stream(seed: int, name: str, *part: int) -> np.random.Generator:
    """The generator of one purpose, or of one part of its work."""
    return np.random.default_rng([seed, STREAMS.index(name), *part])


def uniform(seed: int, name: str, index: NDArray[Any], k: int = 0) -> NDArray[np.float64]:
    """A number in (0, 1) for every index, the k-th of its purpose (splitmix64 of the three)."""
    with np.errstate(over="ignore"):
        key = _mixed(np.uint64(seed % (1 << 58)) * np.uint64(64) + np.uint64(STREAMS.index(name)))
        key = _mixed(key ^ _mixed(np.uint64(k + 1)))
        bits = _mixed(_mixed(index.astype(np.uint64) ^ key) + key)
    numbers: NDArray[np.float64] = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return numbers


def gaussian(seed: int, name: str, index: NDArray[Any], k: int = 0) -> NDArray[np.float64]:
    """The same with a standard normal distribution."""
    drawn: NDArray[np.float64] = ndtri(uniform(seed, name, index, k))
    return drawn


def _mixed(x: Any) -> Any:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
