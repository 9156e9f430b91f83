"""What the training loop needs of a network: weights by name, a loss and codes. Imported by fits only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from .torch_layers import Tensor, Weights

__all__ = ["WHOLE", "BatchPart", "BatchResult", "Network", "Whole", "sizes_of"]


class BatchPart(Protocol):
    """Which rows of a batch are here: all of them, or a part, while other processes have the others.

    What the parts give is added up, so a network weighs what it has by rows, and gathers what is defined by the batch
    as a whole.
    """

    def weighed(self, mean: Tensor) -> Tensor:
        """What a mean over the rows that are here adds to the mean over the batch: (R,)."""

    def once(self, value: Tensor) -> Tensor:
        """What a value that was made from gathered rows adds: (R,); its gradient reaches the rows that are here."""

    def gathered(self, v: Tensor) -> Tensor:
        """All rows of the batch in order, (R, B, ...), from those that are here."""

    def here(self, v: Tensor) -> Tensor:
        """Those that are here, from all rows of the batch."""

    def add(self, v: Tensor) -> None:
        """The sum over all parts, in place."""


class Whole:
    """All rows of the batch are here."""

    def weighed(self, mean: Tensor) -> Tensor:
        return mean

    def once(self, value: Tensor) -> Tensor:
        return value

    def gathered(self, v: Tensor) -> Tensor:
        return v

    def here(self, v: Tensor) -> Tensor:
        return v

    def add(self, v: Tensor) -> None: ...


WHOLE = Whole()


class BatchResult(NamedTuple):
    """The losses of a batch of every run, as far as they are of the rows that are here, and the codes of these rows."""

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

    def loss(self, x: Tensor, part: BatchPart = WHOLE) -> BatchResult: ...

    def codes(self, x: Tensor) -> Tensor:
        """The tokens of x: (R, B, L)."""

    def residual(self, x: Tensor, level: int, part: BatchPart = WHOLE) -> Tensor:
        """The residual of x that a level (from 0) quantizes in training: (R, B, e)."""


def sizes_of(network: Network) -> list[int]:
    """The number of codewords of every level."""
    books = (name for name in network.weights if name.startswith("codebook."))
    return [network.weights[name].shape[1] for name in sorted(books, key=lambda name: int(name.partition(".")[2]))]
