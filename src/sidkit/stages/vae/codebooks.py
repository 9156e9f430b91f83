"""The parts of a fitted learned tokenizer: an encoder, one codebook per token, a decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ...files.folder import require_array
from ..cluster.kmeans import Centroids, Metric
from .array_layers import Layer, layer_arrays

__all__ = ["FittedCodebooks", "read_codebooks"]


def read_codebooks(
    arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int], width: int, metric: Metric
) -> tuple[Centroids, ...]:
    """The stored codebooks, (K, width) for every size, checked."""
    shapes = enumerate((K, width) for K in sizes)
    return tuple(Centroids(require_array(arrays, f"codebook.{level}", shape), metric) for level, shape in shapes)


class FittedCodebooks:
    """Properties of a fitted stage that has these fields."""

    encoder: tuple[Layer, ...]
    decoder: tuple[Layer, ...]
    books: tuple[Centroids, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(book.centroids) for book in self.books)

    @property
    def codebooks(self) -> list[NDArray[Any]]:
        """Per level (K, e), in the space of the encoder's output."""
        return [book.centroids for book in self.books]

    @property
    def layers_and_books(self) -> dict[str, NDArray[Any]]:
        """By the names they are stored under."""
        books = {f"codebook.{level}": book for level, book in enumerate(self.codebooks)}
        return layer_arrays("encoder", self.encoder) | layer_arrays("decoder", self.decoder) | books
