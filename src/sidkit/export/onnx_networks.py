"""The learned tokenizers as nodes of a graph. Networks are computed in float64, as sidkit computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InputError
from ..geometry import unit
from ..stages.vae.array_layers import Layer
from ..stages.vae.r3vae import FittedR3VAE
from ..stages.vae.rqvae import FittedRQVAE
from .onnx_graph import OnnxGraph
from .onnx_stages import Flow, add_stage, nearest, residual, scaled

__all__ = ["forward"]


@add_stage.register
def _(stage: FittedRQVAE, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    _require_last(last)
    r, tokens = graph.cast(forward(graph, flow.x, stage.encoder), np.float32), []
    for level, book in enumerate(stage.books):
        tokens.append(nearest(graph, r, book.centroids, book.metric, np.float32))
        if level + 1 < len(stage.books):
            centroid = graph.node("Gather", graph.constant(book.centroids, np.float32), tokens[-1])
            r = graph.node("Sub", r, centroid)
    return flow.onward(flow.x, *tokens, sizes=stage.sizes)


@add_stage.register
def _(stage: FittedR3VAE, graph: OnnxGraph, flow: Flow, last: bool) -> Flow:
    _require_last(last)
    z = forward(graph, flow.x, stage.encoder)
    e = residual(graph, z, graph.constant(stage.reference[None, :], np.float64), 0.0, len(stage.reference), np.float64)
    tokens: list[str] = []
    for level, book in enumerate(stage.books):
        tokens.append(nearest(graph, graph.cast(e, np.float32), book.centroids, book.metric, np.float32))
        if level + 1 < len(stage.books):
            e = graph.node("Sub", e, _quantized(stage, graph, e, level, tokens[-1]))
    return flow.onward(flow.x, *tokens, sizes=stage.sizes)


def _quantized(stage: FittedR3VAE, graph: OnnxGraph, e: str, level: int, token: str) -> str:
    """`FittedR3VAE._quantized`: the mixture of rated codewords, or the best one at its cosine."""
    book = np.asarray(stage.books[level].centroids, np.float64)
    direction = scaled(graph, e, book.shape[1], np.float64)
    if stage.spec.rating == "top1":
        chosen = graph.node("Gather", graph.constant(unit(book)), token)
        return graph.node("Mul", graph.row_sum(graph.node("Mul", direction, chosen), book.shape[1]), chosen)
    scores = graph.node("MatMul", direction, graph.constant(unit(book).T))
    weights = graph.node(
        "Softmax", graph.node("Div", scores, graph.constant(stage.spec.temperature, np.float64)), axis=1
    )
    return graph.node("MatMul", weights, graph.constant(book))


def forward(graph: OnnxGraph, x: str, layers: Sequence[Layer]) -> str:
    """`array_layers.forward`: layers with ReLU between them, in float64."""
    h = graph.cast(x, np.float64)
    for i, (weight, bias) in enumerate(layers):
        h = graph.node("MatMul", h, graph.constant(np.asarray(weight, np.float64).T))
        h = graph.node("Add", h, graph.constant(np.asarray(bias, np.float64)[None, :]))
        if i + 1 < len(layers):
            h = graph.node("Relu", h)
    return h


def _require_last(last: bool) -> None:
    if not last:
        raise InputError("the ONNX graph has no form for stages after a learned tokenizer; encode with sidkit")
