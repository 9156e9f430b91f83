"""Fits and encodings that the paper does not have; `tiger_codes.py` names them as options of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from tiger_codes import sequences_of

from sidkit.embed.co_occurrence import blend, co_occurrence
from sidkit.geometry import unit
from sidkit.stages.cluster import Balanced, KMeans, PerParent
from sidkit.stages.cluster.kmeans import Centroids
from sidkit.tokenizer.recipes import recipe
from sidkit.tokenizer.spread import spread as spread_items


@dataclass(frozen=True)
class Started(KMeans):
    """KMeans from other first centroids: "plus" by greedy k-means++, "best" from the best of `starts` fits."""

    way: str = "plus"
    starts: int = 8

    def start(self, rows, run):
        if self.way != "plus":
            return super().start(rows, run)
        x = unit(rows.take(np.arange(rows.shape[0])).astype(np.float64))
        rng = np.random.default_rng((run.seed, rows.width, 1))
        return Centroids(x[plus_plus(x, self.size, rng)], self.metric)

    def fit(self, rows, run):
        if self.way != "best":
            return super().fit(rows, run)
        fits = [super(Started, self).fit(rows, replace(run, seed=1000 * run.seed + i)) for i in range(self.starts)]
        return max(fits, key=lambda fit: float(rows.reduce(partial(self.statistics, fit))[-1][0]))


def plus_plus(x: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, d) of length one or zero: the indices of `size` of them by greedy k-means++ under 1 - cos."""
    alive = x.any(axis=1)
    chosen = [int(rng.choice(np.flatnonzero(alive)))]
    far = np.where(alive, np.maximum(1 - x @ x[chosen[0]], 0.0), 0.0)
    for _ in range(size - 1):
        tries = rng.choice(len(x), 2 + int(np.log(size)), p=far / far.sum())
        left = np.minimum(far, np.where(alive, np.maximum(1 - x[tries] @ x.T, 0.0), 0.0))
        best = int(left.sum(axis=1).argmin())
        chosen.append(int(tries[best]))
        far = left[best]
    return np.array(chosen)


@dataclass(frozen=True)
class Annealed(KMeans):
    """KMeans whose soft weights sharpen: (passes, top_k, beta) one after the other."""

    schedule: tuple[tuple[int, int, float], ...] = ((10, 10, 10.0), (10, 5, 15.0), (10, 2, 15.0), (10, 2, 30.0))

    def fit(self, rows, run):
        clusters = self.start(rows, run)
        for passes, top_k, beta in self.schedule:
            step = replace(self, top_k=top_k, beta=beta)
            for _ in range(passes):
                clusters = step.update(clusters, rows.reduce(partial(step.statistics, clusters)))
        return self.finish(clusters, rows.dtype)


def beam_codes(fitted, X: np.ndarray, width: int) -> np.ndarray:
    """Tokens by beam search over the levels of a PRQ tokenizer: least prod_l (1 - cos_l^2), the energy that is left."""
    books = [unit(book.astype(np.float64)) for book in fitted.codebooks]
    grams = [[a @ b.T for b in books] for a in books]
    out = np.empty((len(X), len(books)), np.int32)
    for start in range(0, len(X), 512):
        x = X[start : start + 512]
        for stage in fitted.stages[: -len(books)]:
            x = stage.carry(x, np.empty((len(x), 0), np.int32))
        out[start : start + 512] = _beam(x.astype(np.float64), books, grams, width)
    return out


def _beam(x: np.ndarray, books: list[np.ndarray], grams: list[list[np.ndarray]], width: int) -> np.ndarray:
    """x: (n, d). A state is a prefix: the products of its residual with all later centroids, and what is left of |x|^2.

    r' = r - (r.c) c, so r'.b = r.b - (r.c) (c.b): no residual is ever made.
    """
    n = len(x)
    products = [(x @ book.T)[:, None, :] for book in books]  # (n, beams, K)
    left, codes = (x * x).sum(axis=1)[:, None], np.zeros((n, 1, 0), np.int32)
    for level in range(len(books)):
        here = np.maximum(products[level], 0.0)  # a centroid behind the row is never taken
        after = (left[:, :, None] - here**2).reshape(n, -1)
        keep = min(width if level + 1 < len(books) else 1, after.shape[1])
        best = np.argsort(after, axis=1, kind="stable")[:, :keep]
        beam, code = np.divmod(best, here.shape[2])
        left = np.take_along_axis(after, best, 1)
        codes = np.concatenate([np.take_along_axis(codes, beam[:, :, None], 1), code[:, :, None]], 2).astype(np.int32)
        share = np.take_along_axis(here.reshape(n, -1), best, 1)[:, :, None]
        for later in range(level + 1, len(books)):
            before = np.take_along_axis(products[later], beam[:, :, None], 1)
            products[later] = before - share * grams[level][later][code]
    return codes[:, 0]


def fitted_to(X: np.ndarray, name: str, sizes: Sequence[int], seed: int, way: str, last: str, options: dict):
    """The recipe of that name; of prq-kmeans all levels, or the last, in another way."""
    plain = recipe(name, sizes=sizes, **options)
    kinds = {
        "": lambda level: level.cluster,
        "plus": lambda level: Started(**vars(level.cluster)),
        "best": lambda level: Started(**vars(level.cluster), way="best"),
        "anneal": lambda level: Annealed(**vars(level.cluster)),
        "balanced": lambda level: Balanced(level.cluster.size),
        "per-parent": lambda level: PerParent(level.cluster.size),
    }
    ways = [way] * (len(sizes) - 1) + [last or way]
    first, levels = plain.stages[: -len(sizes)], plain.stages[-len(sizes) :]
    levels = tuple(replace(level, cluster=kinds[kind](level)) for level, kind in zip(levels, ways, strict=True))
    return replace(plain, stages=(*first, *levels)).fit(X, seed=seed)


def beyond_codes(
    name: str,
    folder: Path,
    X: np.ndarray,
    sizes: Sequence[int],
    seed: int,
    way: str = "",
    last: str = "",
    beam: int = 0,
    spread: bool = False,
    together: float = 0.0,
    window: int = 5,
    **options,
) -> np.ndarray:
    """Codes of a recipe with: another way to fit its levels, or its last one; beam search of this width; items spread
    over the last level's codes; co-occurrence in this window joined with this weight; further options of the recipe."""
    X = blend(X, co_occurrence(sequences_of(folder).training(), len(X), window=window), together) if together else X
    fitted = fitted_to(X, name, sizes, seed, way, last, options)
    codes = beam_codes(fitted, X, beam) if beam else fitted.fit_codes
    return spread_items(fitted, X, codes, policy="least-cost") if spread else codes
