"""What a tokenizer makes of items: their tokens, distortion, distances, and how nearly tokens were others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows
from ..errors import InputError, SpecError
from ..geometry import unit
from ..stages.cluster.loop import HasCosts
from ..stages.level import FittedLevel
from ..stages.stage import HasTokenCosts

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["MOST", "Readings", "readings_of"]

MOST = 4096  # items that are looked at
FEWEST = 30

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Readings:
    """Of n items. None where a tokenizer has no such reading."""

    codes: NDArray[np.int32]  # (n, tokens)
    distance: Floats | None  # (n,) of what reaches a level to its centroid, |r - c|, the mean over levels
    distortion: Floats | None  # (n,) 1 - cos(x, what its codes decode to)
    gaps: Floats | None  # (n, tokens with costs) what the second-best code would cost more

    def __len__(self) -> int:
        return len(self.codes)

    def to_plain(self) -> dict[str, Any]:
        """Lists of numbers, for JSON, with five digits."""
        parts = {name: getattr(self, name) for name in _PARTS}
        rounded = {name: None if part is None else _rounded(part) for name, part in parts.items()}
        return {"codes": self.codes.tolist(), **rounded}

    @classmethod
    def from_plain(cls, plain: Any, tokens: int) -> Readings:
        """The inverse of `to_plain`, checked."""
        try:
            codes = np.asarray(plain["codes"], np.int32)
            parts = [None if plain[name] is None else np.asarray(plain[name], float) for name in _PARTS]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"this is no reference of sidkit publish watch: {error!r}") from None
        if codes.ndim != 2 or codes.shape[1] != tokens:
            raise InputError(f"this reference is for other SIDs: its codes have shape {codes.shape}, not (n, {tokens})")
        for (name, axes), part in zip(_PARTS.items(), parts, strict=True):
            if part is not None and (part.ndim != axes or len(part) != len(codes)):
                what = f"{name!r} has shape {part.shape} for {len(codes)} items"
                raise InputError(f"this is no reference of sidkit publish watch: {what}")
        return cls(codes, *parts)


_PARTS = {"distance": 1, "distortion": 1, "gaps": 2}  # the number of axes


def readings_of(fitted: FittedTokenizer, X: Any, seed: int = 0, most: int = MOST) -> Readings:
    """The readings of rows X, or of a random sample of `most` of them."""
    rows = as_rows(X, "cpu", dtype=np.dtype(fitted.dtype), d=fitted.d)
    n = rows.shape[0]
    if n < FEWEST:
        raise InputError(f"{n} items are too few to tell drift from chance; give at least {FEWEST}")
    chosen = np.sort(np.random.default_rng(seed).choice(n, min(n, most), replace=False))
    first = np.asarray(rows.take(chosen))
    codes = fitted.encode(first, "cpu")
    x, done = first, 0
    distances, gaps = list[Floats](), list[Floats]()
    for stage in fitted.stages:
        done += len(stage.sizes)
        so_far = codes[:, :done]
        if isinstance(stage, FittedLevel):
            distances.append(np.linalg.norm(x - np.asarray(stage.clusters.chosen(x, so_far)), axis=1))
        if isinstance(stage, HasTokenCosts) and _has_costs(stage):
            gaps += [_gap(costs) for costs in stage.token_costs(x, so_far)]
        if done < codes.shape[1]:
            x = np.asarray(stage.carry(x, so_far))
    distance = np.mean(distances, axis=0) if distances else None
    return Readings(codes, distance, _distortion(fitted, first, codes), np.stack(gaps, 1) if gaps else None)


def _has_costs(stage: Any) -> bool:
    return not isinstance(stage, FittedLevel) or isinstance(stage.clusters, HasCosts)


def _gap(costs: Floats) -> Floats:
    """What the second-best code of every row would cost more, (n,); large where there is no second."""
    if costs.shape[1] < 2:
        return np.full(len(costs), 1e30)
    two = np.partition(costs, 1, axis=1)
    return np.nan_to_num(two[:, 1] - two[:, 0], posinf=1e30)


def _distortion(fitted: FittedTokenizer, x: NDArray[Any], codes: NDArray[np.int32]) -> Floats | None:
    """1 - cos(x, decoded), of as many first tokens as stand for vectors; None if none does."""
    for tokens in range(codes.shape[1], 0, -1):
        try:
            decoded = fitted.decode(codes[:, :tokens])
        except SpecError:
            continue
        cosines: Floats = (unit(x.astype(np.float64)) * unit(decoded.astype(np.float64))).sum(axis=1)
        return 1 - cosines
    return None


def _rounded(values: Floats) -> Any:
    return np.vectorize(lambda value: float(f"{value:.5g}"))(values).tolist() if values.size else values.tolist()
