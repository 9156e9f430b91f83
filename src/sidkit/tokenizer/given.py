"""Codebooks that someone else fitted, as a tokenizer like any other.

    fitted = Given.residual([C1, C2, C3])                   # OpenOneRec's and other plain RQ-KMeans centroids
    fitted = Given.product([C1, C2], rotation=R)            # PQ or OPQ codebooks
    fitted = Given.faiss(faiss.read_index("rq.index"))      # a Residual- or ProductQuantizer, or an index of one
    fitted = Given.rq_vae([(W1, b1), (W2, b2)], [C1, C2])   # the encoder and codebooks of an RQ-VAE

The result encodes, saves, loads and reports. faiss encodes residual quantizers with a beam of 5 by default; sidkit
decides level by level unless beam is given: `Given.faiss(quantizer, beam=5)` gives faiss's codes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..geometry import compute_dtype
from ..stages.beam import FittedResidualBeam, ResidualBeam
from ..stages.cluster.kmeans import Centroids, KMeans, Metric
from ..stages.level import FittedLevel, Level, Residual
from ..stages.opq import OPQ
from ..stages.prepare import FittedRemoveMean, RemoveMean, normalize_if
from ..stages.product import PQ, FittedProduct, blocks
from ..stages.stage import Fitted, Stage
from ..stages.vae.array_layers import layer_arrays
from ..stages.vae.rqvae import RQVAE
from ..stages.vae.settings import Training
from .tokenizer import FittedTokenizer, Tokenizer

__all__ = ["Given"]

Layer = tuple[Any, Any]  # weight (out, in) as torch has it, bias (out,) or None


class Given:
    """Functions that make a FittedTokenizer of given arrays."""

    @staticmethod
    def residual(
        codebooks: Sequence[Any],
        metric: Metric = "euclidean",
        rule: Residual = Residual(1.0, False),  # noqa: B008 - a frozen value
        mean: Any = None,
        normalize: bool = False,
        beam: int = 1,
    ) -> FittedTokenizer:
        """Levels with these centroids, (K, d) each, compared by metric and taken away by rule.

        mean: if given, its component is projected out first; normalize: rows are scaled to length one before all.
        beam: choices that are followed to the last level (`stages/beam.py`), for Euclidean centroids that are
        subtracted; 1 decides level by level.
        """
        books = _codebooks(codebooks)
        widths = [book.shape[1] for book in books]
        if len(set(widths)) != 1:
            raise InputError(f"residual codebooks must all have the same d; got {widths}")
        d, dtype = widths[0], books[0].dtype
        spec: list[Stage] = [*normalize_if(normalize)]
        stages: list[Fitted] = [stage.restore({}, d) for stage in spec]
        if mean is not None:
            spec.append(RemoveMean())
            stages.append(FittedRemoveMean(np.asarray(mean, dtype).reshape(d)))
        if beam != 1:
            if (metric, rule.keep, rule.normalize) != ("euclidean", 1.0, False):
                raise SpecError(
                    "a beam is for Euclidean centroids that are subtracted; leave out beam, or metric and rule"
                )
            together = ResidualBeam(tuple(len(book) for book in books), beam)
            spec.append(together)
            stages.append(FittedResidualBeam(tuple(books), beam))
            books = []  # they have their stage
        for book in books:
            level = Level(KMeans(len(book), metric, iterations=0), rule)
            spec.append(level)
            stages.append(FittedLevel(level, Centroids(book, metric)))
        return FittedTokenizer(Tokenizer(tuple(spec), "given"), tuple(stages), d, dtype.name, 0)

    @staticmethod
    def product(codebooks: Sequence[Any], rotation: Any = None, mean: Any = None) -> FittedTokenizer:
        """Blocks with these centroids, (K, width) each, of y = R (x - mean)."""
        books = tuple(_codebooks(codebooks))
        d = sum(book.shape[1] for book in books)
        widths = [block.stop - block.start for block in blocks(d, len(books))]
        if [book.shape[1] for book in books] != widths:
            raise InputError(f"the codebooks are {[b.shape[1] for b in books]} wide; blocks of {d} should be {widths}")
        sizes = tuple(len(book) for book in books)
        if rotation is None:
            spec: Stage = PQ(sizes, iterations=0)
            stage = FittedProduct(books)
        else:
            spec = OPQ(sizes, alternations=0, first=0)
            turn = _matrix(rotation, "the rotation")
            if turn.shape != (d, d):
                raise InputError(f"the rotation has shape {turn.shape}; the codebooks need ({d}, {d})")
            centre = np.zeros(d) if mean is None else np.asarray(mean, np.float64).reshape(d)
            stage = FittedProduct(books, turn.astype(np.float64), centre)
        return FittedTokenizer(Tokenizer((spec,), "given"), (stage,), d, books[0].dtype.name, 0)

    @staticmethod
    def faiss(quantizer: Any, beam: int | None = None) -> FittedTokenizer:
        """A faiss ResidualQuantizer, ProductQuantizer, or an index that holds one (IndexResidualQuantizer, IndexPQ).

        beam: as for `residual`. faiss itself encodes with `max_beam_size`, which makes other codes than beam 1, the
        default here; a quantizer that has a wider one gives a warning unless beam is given.
        """
        inner = getattr(quantizer, "rq", None) or getattr(quantizer, "pq", None) or quantizer
        kind = type(inner).__name__
        if kind == "ResidualQuantizer":
            flat = import_module("faiss").vector_to_array(inner.codebooks).copy()
            sizes = [2 ** inner.nbits.at(level) for level in range(inner.M)]
            if beam is None and inner.max_beam_size > 1:
                warnings.warn(
                    f"faiss encodes this quantizer with a beam of {inner.max_beam_size}, sidkit level by level, which "
                    f"gives other codes; beam={inner.max_beam_size} gives those of faiss, and beam=1 ends this warning",
                    stacklevel=2,
                )
            return Given.residual(np.split(flat.reshape(-1, inner.d), np.cumsum(sizes)[:-1]), beam=beam or 1)
        if kind == "ProductQuantizer":
            flat = import_module("faiss").vector_to_array(inner.centroids).copy()
            return Given.product(list(flat.reshape(inner.M, inner.ksub, inner.dsub)))
        raise InputError(f"cannot take codebooks from {kind}; give a faiss ResidualQuantizer or ProductQuantizer")

    @staticmethod
    def rq_vae(
        encoder: Sequence[Layer],
        codebooks: Sequence[Any],
        decoder: Sequence[Layer] | None = None,
        normalize: bool = False,
    ) -> FittedTokenizer:
        """The weights of an encoder (Linear layers with ReLU between) and its codebooks, (K, e) each.

        Without a decoder it gives tokens, and no stage can follow it. normalize scales rows to length one first.
        Nothing was trained here: the training fields of the spec have no meaning.
        """
        layers = _layers(encoder, "encoder")
        books = [book.astype(np.float32) for book in _codebooks(codebooks)] if codebooks else []
        if not layers or not books:
            raise SpecError("an RQ-VAE needs at least one encoder layer and one codebook")
        d, latent = layers[0][0].shape[1], layers[-1][0].shape[0]
        for level, book in enumerate(books):
            if book.shape[1] != latent:
                raise SpecError(f"codebook {level + 1} is {book.shape[1]} wide, the encoder's output {latent}")
        hidden, sizes = tuple(len(weight) for weight, _ in layers[:-1]), tuple(len(book) for book in books)
        spec = RQVAE(sizes, hidden, latent, sinkhorn=0.0, training=Training(1, max(sizes), 1e-3))
        arrays = layer_arrays("encoder", layers) | {f"codebook.{level}": book for level, book in enumerate(books)}
        if decoder is not None:
            arrays |= layer_arrays("decoder", _layers(decoder, "decoder"))
        first = normalize_if(normalize)
        stages: tuple[Fitted, ...] = (*(stage.restore({}, d) for stage in first), spec.restore(arrays, d))
        return FittedTokenizer(Tokenizer((*first, spec), "given-rq-vae"), stages, d, "float32", 0)


def _layers(pairs: Sequence[Layer], name: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    layers: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for i, (w, b) in enumerate(pairs):
        weight = _matrix(w, f"{name} layer {i + 1}").astype(np.float32)
        bias = np.zeros(len(weight), np.float32) if b is None else _array(b).astype(np.float32)
        if bias.shape != (len(weight),):
            raise SpecError(f"{name} layer {i + 1}: a weight of shape {weight.shape} has a bias of shape {bias.shape}")
        if layers and weight.shape[1] != len(layers[-1][0]):
            raise SpecError(
                f"{name} layer {i + 1} takes {weight.shape[1]} inputs, the layer before gives {len(layers[-1][0])}; "
                "weights are (out, in), as torch has them"
            )
        layers.append((weight, bias))
    return layers


def _codebooks(codebooks: Sequence[Any]) -> list[NDArray[Any]]:
    if not len(codebooks):
        raise InputError("there are no codebooks")
    return [_matrix(book, f"codebook {i + 1}") for i, book in enumerate(codebooks)]


def _matrix(array: Any, name: str) -> NDArray[Any]:
    matrix = _array(array)
    if matrix.ndim != 2 or matrix.size == 0 or matrix.dtype.kind not in "fiu":
        raise InputError(f"{name} must be a matrix (K, d) of numbers; got {matrix.dtype} {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} holds NaN or infinity")
    return np.ascontiguousarray(matrix, compute_dtype(matrix.dtype))


def _array(array: Any) -> NDArray[Any]:
    """An array, or a tensor of torch on any device."""
    if type(array).__module__.partition(".")[0] == "torch":
        array = array.detach().cpu().float().numpy()
    return np.asarray(array)
