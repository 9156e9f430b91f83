"""RQ-VAE: an encoder, residual quantization of its output, a decoder, trained together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...engine.arrays import like, namespace
from ...errors import SpecError, need
from ...geometry import Array
from ...rows.seam import Rows
from ...rows.work import Work
from ..cluster.kmeans import Centroids
from ..stage import FitContext
from .array_layers import Layer, forward, read_layers, single
from .codebooks import FittedCodebooks, read_codebooks
from .settings import PUBLIC, Training, require_widths

__all__ = ["RQVAE", "FittedRQVAE"]


@dataclass(frozen=True)
class RQVAE:
    """One token per size, decided in the latent space of a learned encoder.

        z = E(x), r_1 = z;   c_l = argmin_k |r_l - e_l[k]|^2,   r_{l+1} = r_l - e_l[c_l];   x^ = D(sum_l e_l[c_l])
        loss = |x - x^|^2 + quant_weight * over levels of (|sg(r_l) - q_l|^2 + beta |r_l - sg(q_l)|^2)

    E is Linear+ReLU over `hidden` to `latent`, D its mirror. The initial codebooks are k-means on the first batch,
    level after level. The defaults are those of the public TIGER pipeline.

    reduction       "mean": means over elements and over levels; "sum": sums over features and levels, mean over rows
    residual_grad   whether the residual carries the encoder's gradient to the next level: "detached", as LC-Rec and
                    its family do, so that only the first level's commitment moves the encoder; or "through"
    sinkhorn        epsilon per level of the balanced assignment in training, 0 for none; a single number is for the
                    last level only. Tokens are always the nearest codewords.

    Inferred: the initial k-means is sidkit's (k-means++ draw, an empty cluster splits the heaviest) rather than
    scikit-learn's; "through" subtracts sg(q), so that a codebook learns from its level only.
    """

    sizes: tuple[int, ...]
    hidden: tuple[int, ...] = (512, 256, 128, 64)
    latent: int = 32
    beta: float = 0.25
    quant_weight: float = 1.0
    reduction: Literal["mean", "sum"] = "mean"
    residual_grad: Literal["detached", "through"] = "detached"
    sinkhorn: float | tuple[float, ...] = 0.003
    sinkhorn_iterations: int = 50
    training: Training = PUBLIC

    def __post_init__(self) -> None:
        self.training.require_start(self.sizes)
        require_widths(self.hidden, self.latent)
        if self.reduction not in ("mean", "sum"):
            raise SpecError(f"reduction must be 'mean' or 'sum', not {self.reduction!r}")
        if self.residual_grad not in ("detached", "through"):
            raise SpecError(f"residual_grad must be 'detached' or 'through', not {self.residual_grad!r}")
        if len(self.balance) != len(self.sizes) or min(self.balance) < 0:
            raise SpecError(f"sinkhorn needs one epsilon, or one for each of {len(self.sizes)} levels: {self.sinkhorn}")

    @property
    def balance(self) -> tuple[float, ...]:
        """The Sinkhorn epsilon of every level; 0 where it is off."""
        if isinstance(self.sinkhorn, tuple):
            return self.sinkhorn
        return (*(0.0 for _ in self.sizes[1:]), self.sinkhorn)

    def widths(self, d: int) -> tuple[int, ...]:
        """The encoder's widths, from the rows to the latent space; the decoder's are the reverse."""
        return (d, *self.hidden, self.latent)

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        need("torch", "torch", "training an RQ-VAE")
        return run.check_starts(shape[0], self.sizes, level)

    def work(self) -> Work:
        """None that moves the rows: training takes a GPU wherever they are."""
        return Work(0.0)

    def fit(self, rows: Rows, run: FitContext) -> FittedRQVAE:
        return self.fit_seeds(rows, [run])[0]

    def fit_seeds(self, rows: Rows, runs: Sequence[FitContext]) -> list[FittedRQVAE]:
        """Runs that differ in their seeds, trained at once."""
        self.check(rows.shape, rows.width, runs[0])
        from .loop import train
        from .rqvae_network import RQVAENetwork

        d = rows.shape[1]
        trained = train(lambda g: RQVAENetwork.new(self, d, g), self.training, rows, runs, "rq-vae")
        return [self.restore(arrays, d) for arrays in trained]

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedRQVAE:
        """Weights without a decoder are accepted: they give tokens, and no residual for a next stage."""
        widths = self.widths(d)
        decoder = any(name.startswith("decoder.") for name in arrays)
        return FittedRQVAE(
            self,
            read_layers(arrays, "encoder", widths),
            read_layers(arrays, "decoder", widths[::-1]) if decoder else (),
            read_codebooks(arrays, self.sizes, self.latent, "euclidean"),
        )


@dataclass(frozen=True, eq=False)
class FittedRQVAE(FittedCodebooks):
    spec: RQVAE
    encoder: tuple[Layer, ...]
    decoder: tuple[Layer, ...]  # () where none was given
    books: tuple[Centroids, ...]

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return self.layers_and_books

    def latent(self, x: Array) -> Array:
        """z = E(x) in float32: (n, latent)."""
        return single(forward(x, self.encoder))

    def tokens(self, x: Array, codes: Array) -> Array:
        r, columns = self.latent(x), []
        for book in self.books:
            columns.append(book.assign(r, codes))
            r = r - like(book.centroids, r)[columns[-1]]
        return namespace(r).stack(columns, 1)

    def token_costs(self, x: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[np.float64]]:
        r, costs = np.asarray(self.latent(x)), []
        for book, token in zip(self.books, codes[:, codes.shape[1] - len(self.sizes) :].T, strict=True):
            costs.append(book.costs(r))
            r = r - book.centroids[token]
        return costs

    def carry(self, x: Array, codes: Array) -> Array:
        """The error of the reconstruction, x - x^: (n, d)."""
        if not self.decoder:
            raise SpecError("this RQ-VAE came without a decoder, so no stage can follow it; give its decoder's weights")
        tokens = codes[:, codes.shape[1] - len(self.sizes) :]
        return x - like(self._decoded(tokens, x), x)

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        """What its decoder makes of the codewords."""
        if not self.decoder:
            raise SpecError("this RQ-VAE came without a decoder, so its codes cannot be decoded; give its weights")
        tokens = codes[:, codes.shape[1] - len(self.sizes) :]
        return np.asarray(self._decoded(tokens, rest) + rest, np.float64)

    def _decoded(self, codes: Array, x: Array) -> Array:
        return forward(sum(like(book.centroids, x)[codes[:, i]] for i, book in enumerate(self.books)), self.decoder)
