"""Every fitted stage as nodes of a graph: the arithmetic of its `tokens` and `carry`.

What sidkit computes in float64 is computed in float64 here too: mixtures, rotations, bits, networks, and the scores of
near-ties (all scores, unless `exact` is off). Residuals are rounded as sidkit rounds them, sums in numpy's order
included: where a centroid is a single row, the residual is rounding error, and a last bit decides the next tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..geometry import squared_length, unit, vanishing
from ..stages.cluster.balanced import Priced
from ..stages.cluster.gmm import RAREST, Mixture
from ..stages.cluster.kmeans import Centroids
from ..stages.cluster.per_parent import ParentBooks
from ..stages.level import FittedLevel, Residual
from ..stages.prepare import FittedNormalize, FittedRemoveMean
from ..stages.product import FittedProduct, blocks
from ..stages.scalar import FittedFSQ
from .onnx_graph import OnnxGraph

__all__ = ["Flow", "add_stage", "nearest", "residual", "scaled"]

LARGEST_TABLE = 1 << 26  # entries of the table of parents

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Flow:
    """What goes from stage to stage: the rows, the tokens so far (n,) each with their sizes, and the rows' dtype."""

    x: str
    tokens: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: Any
    d: int
    exact: bool = True  # whether scores are in float64

    def onward(self, x: str, *tokens: str, sizes: tuple[int, ...] = ()) -> Flow:
        return replace(self, x=x, tokens=(*self.tokens, *tokens), sizes=(*self.sizes, *sizes))


@singledispatch
def add_stage(stage: Any, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    """The flow after a stage; after the last one, only its tokens matter."""
    raise InputError(
        f"the ONNX graph has no form for {type(stage).__name__.removeprefix('Fitted')}: beam searches and stages of "
        "other packages are not exported; encode with sidkit, or export the codes"
    )


@add_stage.register
def _(stage: FittedNormalize, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    return flow.onward(scaled(graph, flow.x, flow.d, flow.dtype))


@add_stage.register
def _(stage: FittedRemoveMean, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    mean = graph.constant(stage.mean[None, :], flow.dtype)
    return flow.onward(scaled(graph, residual(graph, flow.x, mean, 0.0, flow.d, flow.dtype), flow.d, flow.dtype))


@add_stage.register
def _(stage: FittedLevel, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    clusters = stage.clusters
    if isinstance(clusters, ParentBooks):
        token, centroid = _under_parent(clusters, graph, flow)
    else:
        token = _decided(clusters, graph, flow)
        book = clusters.means if isinstance(clusters, Mixture) else clusters.centroids  # type: ignore[attr-defined]
        centroid = "" if last else graph.node("Gather", graph.constant(book, flow.dtype), token)
    if last:
        return flow.onward(flow.x, token, sizes=stage.sizes)
    return flow.onward(_passed_on(stage.spec.rule, graph, flow, centroid), token, sizes=stage.sizes)


def _passed_on(rule: Residual, graph: OnnxGraph, flow: Flow, centroid: str) -> str:
    rest = residual(graph, flow.x, centroid, rule.keep, flow.d, flow.dtype)
    return scaled(graph, rest, flow.d, flow.dtype) if rule.normalize else rest


def _decided(clusters: Any, graph: OnnxGraph, flow: Flow) -> str:
    if isinstance(clusters, Centroids):
        return nearest(graph, flow.x, clusters.centroids, clusters.metric, flow.dtype, clusters.bonus, flow.exact)
    if isinstance(clusters, Priced):
        return nearest(graph, flow.x, clusters.centroids, "euclidean", flow.dtype, -clusters.prices, flow.exact)
    if isinstance(clusters, Mixture):
        return _likeliest(clusters, graph, flow)
    raise InputError(f"the ONNX graph has no form for {type(clusters).__name__}; encode with sidkit")


def nearest(
    graph: OnnxGraph,
    x: str,
    centroids: Floats,
    metric: str,
    dtype: Any,
    bonus: Floats | None = None,
    exact: bool = True,
) -> str:
    """The nearest centroid of every row, by the engine's scores; exact: in float64, as it decides near-ties."""
    if exact:
        x, dtype = graph.cast(x, np.float64), np.float64
    book = np.asarray(centroids, np.float64)
    if metric == "cosine":
        return graph.best(graph.node("MatMul", x, graph.stored(unit(book).T, dtype)))
    half = -0.5 * squared_length(book)[:, 0] + (0.0 if bonus is None else bonus)
    scores = graph.node("MatMul", x, graph.stored(book.T, dtype))
    return graph.best(graph.node("Add", scores, graph.constant(half[None, :], dtype)))


def residual(graph: OnnxGraph, r: str, c: str, keep: float, d: int, dtype: Any) -> str:
    """`geometry.residual`: r - [keep c + (1 - keep) (r.c / |c|^2) c], zero where it is rounding error."""
    if keep == 1.0:
        left = graph.node("Sub", r, c)
    else:
        share = graph.node("Div", graph.row_sum(graph.node("Mul", r, c), d), _or_one(graph, graph.squares(c, d), dtype))
        if keep != 0.0:
            share = graph.node("Mul", share, graph.constant(1.0 - keep, dtype))
            share = graph.node("Add", share, graph.constant(keep, dtype))
        left = graph.node("Sub", r, graph.node("Mul", share, c))
    least = graph.node("Mul", graph.squares(r, d), graph.constant(vanishing(np.dtype(dtype)) ** 2, dtype))
    survives = graph.node("Greater", graph.squares(left, d), least)
    return graph.node("Mul", left, graph.cast(survives, dtype))


def scaled(graph: OnnxGraph, x: str, d: int, dtype: Any) -> str:
    """`geometry.unit`: rows of length one; a zero row stays zero."""
    return graph.node("Div", x, _or_one(graph, graph.node("Sqrt", graph.squares(x, d)), dtype))


def _or_one(graph: OnnxGraph, x: str, dtype: Any) -> str:
    """x, and 1 where it is 0."""
    return graph.node("Add", x, graph.cast(graph.node("Equal", x, graph.constant(0.0, dtype)), dtype))


def _likeliest(mixture: Mixture, graph: OnnxGraph, flow: Flow) -> str:
    """`Mixture.log_joint`, in float64."""
    means, variances, weights = (np.asarray(a, np.float64) for a in (mixture.means, mixture.variances, mixture.weights))
    constant = np.log(np.maximum(weights, RAREST)) - 0.5 * (means**2 / variances + np.log(2 * np.pi * variances)).sum(1)
    wide = graph.cast(flow.x, np.float64)
    linear = graph.node("MatMul", wide, graph.constant((means / variances).T))
    square = graph.node("MatMul", graph.node("Mul", wide, wide), graph.constant((-0.5 / variances).T))
    return graph.best(graph.node("Add", graph.node("Add", linear, square), graph.constant(constant[None, :])))


def _under_parent(books: ParentBooks, graph: OnnxGraph, flow: Flow) -> tuple[str, str]:
    """The token and the centroid among those of each row's parent, in float64, as a GPU computes it."""
    width = books.keys.shape[1]
    sizes, tokens = flow.sizes[-width:], flow.tokens[-width:]
    if np.prod([float(size) for size in sizes]) > LARGEST_TABLE:
        raise InputError(f"parents of sizes {sizes} are more than {LARGEST_TABLE:,}; too many for a table in a graph")
    parents = np.full(int(np.prod(sizes)), len(books.keys), np.int64)  # the common codebook is one more parent
    parents[np.ravel_multi_index(tuple(books.keys.T), sizes)] = np.arange(len(books.keys))
    starts = np.append(books.starts, books.starts[-1] + len(books.common))
    number = tokens[0]
    for size, token in zip(sizes[1:], tokens[1:], strict=True):
        number = graph.node("Add", graph.node("Mul", number, graph.constant(size, np.int64)), token)
    parent = graph.node("Gather", graph.constant(parents), number)
    first = graph.column(graph.node("Gather", graph.constant(starts[:-1], np.int64), parent))
    final = graph.column(graph.node("Gather", graph.constant(starts[1:] - 1, np.int64), parent))
    slots = graph.constant(np.arange(len(books.common))[None, :], np.int64)
    index = graph.node("Min", graph.node("Add", first, slots), final)  # past the end: the last one again
    table = np.concatenate([books.centroids, books.common])
    wide = table.astype(np.float64)
    near = graph.node("Gather", graph.constant(wide), index)  # (n, K, d)
    row = graph.node("Unsqueeze", graph.cast(flow.x, np.float64), graph.constant([2], np.int64))
    scores = graph.node("Squeeze", graph.node("MatMul", near, row), graph.constant([2], np.int64))
    half = graph.node("Gather", graph.constant(0.5 * squared_length(wide)[:, 0]), index)
    token = graph.best(graph.node("Sub", scores, half))
    chosen = graph.node("GatherElements", index, graph.column(token), axis=1)
    chosen = graph.node("Squeeze", chosen, graph.constant([1], np.int64))
    return token, graph.node("Gather", graph.constant(table, flow.dtype), chosen)


@add_stage.register
def _(stage: FittedProduct, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    y = flow.x
    if stage.rotation is not None and stage.mean is not None:
        centred = graph.node("Sub", graph.cast(flow.x, np.float64), graph.constant(stage.mean[None, :], np.float64))
        y = graph.cast(graph.node("MatMul", centred, graph.constant(stage.rotation.T, np.float64)), flow.dtype)
    d = sum(book.shape[1] for book in stage.books)
    tokens = tuple(
        nearest(graph, graph.columns(y, block.start, block.stop), book, "euclidean", flow.dtype, None, flow.exact)
        for book, block in zip(stage.books, blocks(d, len(stage.books)), strict=True)
    )
    if last:
        return flow.onward(flow.x, *tokens, sizes=stage.sizes)
    parts = [
        graph.node("Gather", graph.constant(book, flow.dtype), token)
        for book, token in zip(stage.books, tokens, strict=True)
    ]
    rebuilt = graph.node("Concat", *parts, axis=1)
    if stage.rotation is not None and stage.mean is not None:
        rebuilt = graph.node("MatMul", rebuilt, graph.constant(stage.rotation, flow.dtype))
        rebuilt = graph.node("Add", rebuilt, graph.constant(stage.mean[None, :], flow.dtype))
    return flow.onward(graph.node("Sub", flow.x, rebuilt), *tokens, sizes=stage.sizes)


@add_stage.register
def _(stage: FittedFSQ, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    wide = graph.cast(flow.x, np.float64)
    wide = scaled(graph, wide, flow.d, np.float64) if stage.normalize else wide
    scores = graph.node("MatMul", wide, graph.constant(stage.directions, np.float64))
    scores = graph.node("Add", scores, graph.constant(stage.bias[None, :], np.float64))
    bits = graph.cast(graph.node("Greater", scores, graph.constant(0.0, np.float64)), np.float64)
    each = len(stage.bias) // stage.count
    weights = np.kron(np.eye(stage.count), 2.0 ** np.arange(each)[:, None])  # (bits, tokens)
    numbers = graph.cast(graph.node("MatMul", bits, graph.constant(weights)), np.int64)
    tokens = (
        graph.node("Squeeze", graph.columns(numbers, t, t + 1), graph.constant([1], np.int64))
        for t in range(stage.count)
    )
    return flow.onward(flow.x, *tokens, sizes=stage.sizes)
