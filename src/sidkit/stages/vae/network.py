"""What the training loop needs of a network: weights by name, a loss and codes. Imported by fits only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from .torch_layers import Tensor, Weights

__all__ = ["BatchResult", "Network", "sizes_of"]


class BatchResult(NamedTuple):
    """The losses of a batch of every run, and the codes of its rows."""

    loss: Tensor  # (R,)
    codes: Tensor  # (R, B, L)
    terms: Mapping[str, Tensor]  # of the loss, (R,) each, for the progress bar


class Network(Protocol):
    """Runs of a network to train at once, rows x (R, B, d).

    Weights are (R, ...) by name; the codebooks are named codebook.0, codebook.1 ... The results of a run do not depend
    on the other runs, and no shape and no branch on any value, so that a step can be recorded.
    """

    @property
    def weights(self) -> Weights: ...

    def having(self, weights: Weights) -> Network:
        """The same network with other weights."""

    def loss(self, x: Tensor) -> BatchResult: ...

    def codes(self, x: Tensor) -> Tensor:
        """The tokens of x: (R, B, L)."""

    def residual(self, x: Tensor, level: int) -> Tensor:
        """The residual of x that a level (from 0) quantizes: (R, B, e)."""


def sizes_of(network: Network) -> list[int]:
    """The number of codewords of every level."""
    books = (name for name in network.weights if name.startswith("codebook."))
    return [network.weights[name].shape[1] for name in sorted(books, key=lambda name: int(name.partition(".")[2]))]
