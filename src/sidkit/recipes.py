"""Every published tokenizer and ablation, as a composition of stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from .cluster import KMeans
from .errors import SpecError, did_you_mean
from .level import PROJECT, Level, Residual
from .prepare import Normalize, RemoveMean
from .tokenizer import Tokenizer

__all__ = [
    "RECIPES",
    "prq_kmeans",
    "recipe",
    "retain",
    "rq_kmeans",
    "without_global",
    "without_projection",
    "without_soft",
]

PUBLIC = (256, 256, 256)  # the paper's public setting


def prq_kmeans(sizes: Sequence[int] = PUBLIC, top_k: int = 2, beta: float = 15.0, iterations: int = 25) -> Tokenizer:
    """PRQ-KMeans (paper, Algorithm 1): global component removal, top-k soft cosine k-means, projection residuals."""
    levels = (Level(KMeans(K, "cosine", top_k, beta, iterations), PROJECT) for K in sizes)
    return Tokenizer((Normalize(), RemoveMean(), *levels), "prq-kmeans")


def rq_kmeans(sizes: Sequence[int] = PUBLIC, iterations: int = 25, normalize: bool = True) -> Tokenizer:
    """RQ-KMeans (paper, Eqs. 1 and 2): Euclidean k-means, whole-centroid subtraction.

    normalize   residuals scaled to length one before the next level, as OneSearch and the paper's industrial
                analysis do, and inputs likewise; False is the plain variant, in which centroids add up to the input.
    """
    levels = (Level(KMeans(K, "euclidean", iterations=iterations), Residual(1.0, normalize)) for K in sizes)
    return Tokenizer((*([Normalize()] if normalize else []), *levels), "rq-kmeans")


def without_global(
    sizes: Sequence[int] = PUBLIC, top_k: int = 2, beta: float = 15.0, iterations: int = 25
) -> Tokenizer:
    """PRQ-KMeans without global component removal (paper, "- Global")."""
    levels = (Level(KMeans(K, "cosine", top_k, beta, iterations), PROJECT) for K in sizes)
    return Tokenizer((Normalize(), *levels), "without-global")


def without_soft(sizes: Sequence[int] = PUBLIC, iterations: int = 25) -> Tokenizer:
    """PRQ-KMeans with hard centroid updates (paper, "- Soft")."""
    return replace(prq_kmeans(sizes, top_k=1, iterations=iterations), name="without-soft")


def without_projection(
    sizes: Sequence[int] = PUBLIC,
    top_k: int = 2,
    beta: float = 15.0,
    iterations: int = 25,
    scale: float = 0.5,
    normalize: bool = True,
) -> Tokenizer:
    """PRQ-KMeans with Euclidean fitting and assignment and whole-centroid subtraction (paper, "- Projection").

    The paper leaves two things open, both fields here: the `scale` of squared distance in the soft weights
    (see `KMeans`), and whether residuals are scaled to length one before the next level (`normalize`).
    """
    levels = (Level(KMeans(K, "euclidean", top_k, beta, iterations, scale), Residual(1.0, normalize)) for K in sizes)
    return Tokenizer((Normalize(), RemoveMean(), *levels), "without-projection")


def retain(keep: float = 0.5, sizes: Sequence[int] = PUBLIC, iterations: int = 25, normalize: bool = True) -> Tokenizer:
    """The paper's retention study (Eq. 5): RQ-KMeans whose first level keeps this share of its carryover.

    keep = 1 is rq_kmeans, keep = 0 removes the carryover completely. The same seed gives the same first level for
    every keep, so only the levels after it differ.
    """
    first, *others = sizes
    levels = (
        Level(KMeans(first, "euclidean", iterations=iterations), Residual(keep, normalize)),
        *(Level(KMeans(K, "euclidean", iterations=iterations), Residual(1.0, normalize)) for K in others),
    )
    return Tokenizer((*([Normalize()] if normalize else []), *levels), "retain")


_ALL: tuple[Callable[..., Tokenizer], ...] = (
    prq_kmeans,
    rq_kmeans,
    without_global,
    without_soft,
    without_projection,
    retain,
)
RECIPES: dict[str, Callable[..., Tokenizer]] = {make.__name__.replace("_", "-"): make for make in _ALL}


def recipe(name: str, **options: Any) -> Tokenizer:
    """The recipe of that name (dashes or underscores), with options that it knows."""
    key = name.replace("_", "-")
    if key not in RECIPES:
        raise SpecError(f"no recipe {name!r}{did_you_mean(key, RECIPES)} (known: {', '.join(RECIPES)})")
    known = signature(RECIPES[key]).parameters
    for option in options:
        if option not in known:
            raise SpecError(f"{key} has no option {option!r} (it has: {', '.join(known)})")
    return RECIPES[key](**options)
