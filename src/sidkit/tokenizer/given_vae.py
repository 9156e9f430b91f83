"""An RQ-VAE that someone else trained, from plain arrays to a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..stages.prepare import FittedNormalize, Normalize
from ..stages.stage import Fitted, Stage
from ..stages.vae.array_layers import layer_arrays
from ..stages.vae.rqvae import RQVAE
from ..stages.vae.settings import Training
from .tokenizer import FittedTokenizer, Tokenizer

__all__ = ["fitted_rqvae"]

Pair = tuple[Any, Any]  # weight (out, in) as torch keeps it, bias (out,) or None


def fitted_rqvae(
    encoder: Sequence[Pair],
    codebooks: Sequence[Any],
    decoder: Sequence[Pair] | None = None,
    normalize: bool = False,
) -> FittedTokenizer:
    """A tokenizer from the weights of an encoder (Linear layers with ReLU between) and its codebooks, (K, e) each.

    Without a decoder it gives tokens, and no stage can follow it. normalize scales rows to length one first.
    Nothing was trained here, so the spec's training fields say one epoch and mean nothing.
    """
    layers = _layers(encoder, "encoder")
    books = [_matrix(book, f"codebook {level + 1}") for level, book in enumerate(codebooks)]
    if not layers or not books:
        raise SpecError("an RQ-VAE needs at least one encoder layer and one codebook")
    d, latent = layers[0][0].shape[1], layers[-1][0].shape[0]
    for level, book in enumerate(books):
        if book.shape[1] != latent:
            raise SpecError(f"codebook {level + 1} is {book.shape[1]} wide, the encoder's output {latent}")
    hidden = tuple(len(weight) for weight, _ in layers[:-1])
    sizes = tuple(len(book) for book in books)
    spec = RQVAE(sizes, hidden, latent, sinkhorn=0.0, training=Training(1, max(sizes), 1e-3))
    arrays = layer_arrays("encoder", layers) | {f"codebook.{level}": book for level, book in enumerate(books)}
    if decoder is not None:
        arrays |= layer_arrays("decoder", _layers(decoder, "decoder"))
    stages: tuple[Stage, ...] = (Normalize(), spec) if normalize else (spec,)
    fitted: tuple[Fitted, ...] = tuple(
        FittedNormalize() if isinstance(stage, Normalize) else stage.restore(arrays, d) for stage in stages
    )
    return FittedTokenizer(Tokenizer(stages, "given-rq-vae"), fitted, d, "float32", 0)


def _layers(pairs: Sequence[Pair], name: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    layers: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for i, (w, b) in enumerate(pairs):
        weight = _matrix(w, f"{name} layer {i + 1}")
        bias = np.zeros(len(weight), np.float32) if b is None else np.asarray(b, np.float32)
        if bias.shape != (len(weight),):
            raise SpecError(f"{name} layer {i + 1}: a weight of shape {weight.shape} has a bias of shape {bias.shape}")
        if layers and weight.shape[1] != len(layers[-1][0]):
            raise SpecError(
                f"{name} layer {i + 1} takes {weight.shape[1]} inputs, the layer before gives {len(layers[-1][0])}; "
                "weights are (out, in), as torch keeps them"
            )
        layers.append((weight, bias))
    return layers


def _matrix(a: Any, name: str) -> NDArray[Any]:
    matrix = np.asarray(a, np.float32)
    if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
        raise SpecError(f"{name} must be a finite matrix; got shape {matrix.shape}")
    return matrix
