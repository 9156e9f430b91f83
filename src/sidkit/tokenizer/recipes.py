"""Every published tokenizer and ablation, as a composition of stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any, Literal

from ..errors import SpecError, did_you_mean
from ..sids.sizes import Sizes, as_sizes
from ..stages.cluster import GMM, Cluster, KMeans, PerParent
from ..stages.level import PROJECT, SUBTRACT, Level, Residual
from ..stages.opq import OPQ
from ..stages.prepare import Normalize, RemoveMean, normalize_if
from ..stages.product import PQ
from ..stages.scalar import FSQ
from ..stages.stage import Stage
from .tokenizer import Tokenizer
from .vae_recipes import r3_vae, rq_vae

__all__ = [
    "RECIPES",
    "hybrid",
    "opq_kmeans",
    "pq_kmeans",
    "prq_kmeans",
    "prq_opq",
    "r3_vae",
    "recipe",
    "res_kmeans_fsq",
    "retain",
    "rq_gmm",
    "rq_kmeans",
    "rq_opq",
    "rq_vae",
    "without_global",
    "without_projection",
    "without_soft",
]

PUBLIC = (256, 256, 256)  # the paper's public setting


def prq_kmeans(sizes: Sizes = PUBLIC, top_k: int = 2, beta: float = 15.0, iterations: int = 25) -> Tokenizer:
    """PRQ-KMeans (paper, Algorithm 1): global component removal, top-k soft cosine k-means, projection residuals."""
    levels = (Level(KMeans(K, "cosine", top_k, beta, iterations), PROJECT) for K in as_sizes(sizes))
    return Tokenizer((Normalize(), RemoveMean(), *levels), "prq-kmeans")


def rq_kmeans(sizes: Sizes = PUBLIC, iterations: int = 25, normalize: bool = True) -> Tokenizer:
    """RQ-KMeans (paper, Eqs. 1 and 2): Euclidean k-means, the centroid subtracted.

    normalize   residuals scaled to length one before the next level, as OneSearch and the paper's industrial
                analysis do, and inputs likewise; False is the plain variant, in which centroids add up to the input.
    """
    levels = (Level(_euclidean(K, iterations, normalize), Residual(1.0, normalize)) for K in as_sizes(sizes))
    return Tokenizer((*normalize_if(normalize), *levels), "rq-kmeans")


def _euclidean(size: int, iterations: int, normalize: bool) -> KMeans:
    return KMeans(size, "euclidean", iterations=iterations, skip_zero=normalize)


def without_global(sizes: Sizes = PUBLIC, top_k: int = 2, beta: float = 15.0, iterations: int = 25) -> Tokenizer:
    """PRQ-KMeans without global component removal (paper, "- Global")."""
    scaled, _, *levels = prq_kmeans(sizes, top_k, beta, iterations).stages
    return Tokenizer((scaled, *levels), "without-global")


def without_soft(sizes: Sizes = PUBLIC, iterations: int = 25) -> Tokenizer:
    """PRQ-KMeans with hard centroid updates (paper, "- Soft")."""
    return replace(prq_kmeans(sizes, top_k=1, iterations=iterations), name="without-soft")


def without_projection(
    sizes: Sizes = PUBLIC,
    top_k: int = 2,
    beta: float = 15.0,
    iterations: int = 25,
    scale: float = 0.5,
    normalize: bool = True,
) -> Tokenizer:
    """PRQ-KMeans with Euclidean fitting and assignment, and the centroid subtracted (paper, "- Projection").

    The paper leaves two things open; both are options here: the `scale` of squared distance in the soft weights
    (see `KMeans`), and whether residuals are scaled to length one before the next level (`normalize`).
    """
    clusters = (KMeans(K, "euclidean", top_k, beta, iterations, scale, skip_zero=normalize) for K in as_sizes(sizes))
    levels = (Level(cluster, Residual(1.0, normalize)) for cluster in clusters)
    return Tokenizer((Normalize(), RemoveMean(), *levels), "without-projection")


def retain(keep: float = 0.5, sizes: Sizes = PUBLIC, iterations: int = 25, normalize: bool = True) -> Tokenizer:
    """The paper's retention study (Eq. 5): RQ-KMeans whose first level keeps this share of its carryover.

    keep = 1 is rq_kmeans, keep = 0 removes the carryover completely. The same seed gives the same first level for
    every keep, so only the levels after it differ.
    """
    first, *others = as_sizes(sizes)
    levels = (
        Level(_euclidean(first, iterations, normalize), Residual(keep, normalize)),
        *(Level(_euclidean(K, iterations, normalize), Residual(1.0, normalize)) for K in others),
    )
    return Tokenizer((*normalize_if(normalize), *levels), "retain")


def rq_gmm(sizes: Sizes = PUBLIC, iterations: int = 30, floor: float = 1e-6, normalize: bool = True) -> Tokenizer:
    """RQ-GMM: a diagonal Gaussian mixture per level, hard choice, its mean subtracted.

    normalize   as in `rq_kmeans`, which the paper compares it with (inferred).
    """
    levels = (Level(GMM(K, iterations, floor, skip_zero=normalize), Residual(1.0, normalize)) for K in as_sizes(sizes))
    return Tokenizer((*normalize_if(normalize), *levels), "rq-gmm")


def pq_kmeans(sizes: Sizes = PUBLIC, iterations: int = 25, normalize: bool = True) -> Tokenizer:
    """PQ-KMeans: independent k-means in each block of coordinates; tokens are parallel, not nested."""
    return Tokenizer((*normalize_if(normalize), PQ(as_sizes(sizes), iterations)), "pq-kmeans")


def opq_kmeans(
    sizes: Sizes = PUBLIC, alternations: int = 25, first: int = 25, steps: int = 1, normalize: bool = True
) -> Tokenizer:
    """OPQ-KMeans: PQ-KMeans after a learned rotation, refined alternately with the codebooks."""
    stage = OPQ(as_sizes(sizes), alternations, first, steps)
    return Tokenizer((*normalize_if(normalize), stage), "opq-kmeans")


def hybrid(prefix: Tokenizer, third: Cluster, suffix: Stage, name: str = "", rule: Residual = SUBTRACT) -> Tokenizer:
    """A residual prefix, a third level under it, and a suffix that quantizes the residual of the third level."""
    return Tokenizer((*prefix.stages, Level(third, rule), suffix), name)


INDUSTRIAL = (1024, 512, 128, 64, 64)  # the paper's five-level setting


def rq_opq(sizes: Sizes = INDUSTRIAL, iterations: int = 25, parents: Literal["prefix", "last"] = "prefix") -> Tokenizer:
    """RQ-OPQ (OneSearch): two RQ-KMeans levels, a third with a codebook per parent, two OPQ tokens of the residual."""
    first, second, third, *suffix = _five(sizes)
    return hybrid(
        rq_kmeans((first, second), iterations), PerParent(third, iterations, parents), OPQ(tuple(suffix)), "rq-opq"
    )


def prq_opq(
    sizes: Sizes = INDUSTRIAL,
    top_k: int = 5,
    beta: float = 15.0,
    iterations: int = 25,
    parents: Literal["prefix", "last"] = "prefix",
) -> Tokenizer:
    """PRQ-OPQ: RQ-OPQ with PRQ-KMeans in its first two levels."""
    first, second, third, *suffix = _five(sizes)
    return hybrid(
        prq_kmeans((first, second), top_k, beta, iterations),
        PerParent(third, iterations, parents),
        OPQ(tuple(suffix)),
        "prq-opq",
    )


def res_kmeans_fsq(
    sizes: Sizes = INDUSTRIAL,
    iterations: int = 25,
    projection: Literal["learned", "itq", "random"] = "learned",
    normalize: bool = True,
) -> Tokenizer:
    """ResKmeansFSQ (QARM V2): three RQ-KMeans levels, then a joint binary code of the residual, split into tokens.

    normalize   as in `rq_kmeans`; the residual that reaches the binary code is then of length one too (inferred).
    """
    first, second, third, *suffix = _five(sizes)
    bits = [size.bit_length() - 1 for size in suffix]
    if any(2**bit != size for bit, size in zip(bits, suffix, strict=True)) or len(set(bits)) != 1:
        raise SpecError(f"the FSQ tokens need equal sizes that are powers of two, not {tuple(suffix)}")
    prefix = rq_kmeans((first, second, third), iterations, normalize)
    return Tokenizer((*prefix.stages, FSQ(sum(bits), len(bits), projection)), "res-kmeans-fsq")


def _five(sizes: Sizes) -> tuple[int, ...]:
    five = as_sizes(sizes)
    if len(five) < 4:
        raise SpecError(f"a hybrid needs three sizes and its suffix, such as 1024-512-128-64-64, not {five}")
    return five


_ALL: tuple[Callable[..., Tokenizer], ...] = (
    prq_kmeans,
    rq_kmeans,
    rq_gmm,
    pq_kmeans,
    opq_kmeans,
    rq_vae,
    r3_vae,
    rq_opq,
    res_kmeans_fsq,
    prq_opq,
    without_global,
    without_soft,
    without_projection,
    retain,
)
RECIPES: dict[str, Callable[..., Tokenizer]] = {make.__name__.replace("_", "-"): make for make in _ALL}


def recipe(name: str, **options: Any) -> Tokenizer:
    """The recipe of that name (dashes or underscores) with these options."""
    key = name.replace("_", "-")
    if key not in RECIPES:
        raise SpecError(f"no recipe {name!r}{did_you_mean(key, RECIPES)} (known: {', '.join(RECIPES)})")
    known = signature(RECIPES[key]).parameters
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not takes_more:
            raise SpecError(f"{key} has no option {option!r} (it has: {', '.join(known)})")
    return RECIPES[key](**options)
