"""R3-VAE: a learned reference direction, then codebooks whose codewords are rated and mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...engine.arrays import like, namespace
from ...errors import SpecError, need
from ...files.folder import require_array
from ...geometry import Array, residual, unit
from ...rows.seam import Rows
from ...rows.work import Work
from ..cluster.kmeans import Centroids
from ..stage import FitContext
from .array_layers import Layer, double, forward, product, read_layers, single
from .codebooks import FittedCodebooks, read_codebooks
from .settings import WIDEST, Training, require_widths

__all__ = ["R3VAE", "R3_PUBLIC", "FittedR3VAE"]

R3_PUBLIC = Training(3000, 1024, 5e-4, weight_decay=1e-5, schedule="constant", clip=0.0)
# The paper gives the optimiser; epochs and batch are those of the RQ-VAE's public schedule (inferred).


@dataclass(frozen=True)
class R3VAE:
    """One token per size, the best-rated codeword; the residual is soft.

        e_0 = x - (x.r / |r|^2) r,   s_k = cos(e_{l-1}, c_k),   w = softmax(s / temperature),
        q_l = sum_k w_k c_k,   e_l = e_{l-1} - q_l,   token = argmax_k w_k;   x^ = (x.r / |r|^2) r + sum_l q_l
        loss = |x - x^|^2 - sc_weight SC + pd_weight PD

    SC and PD are those of `sidkit.sids.coherence`, of each batch, averaged over levels. The paper's lambda is
    both weights. With temperature 1 (as the paper writes it) and many codewords, q_l is close to the codebook's mean,
    so that residuals barely change between levels.

    rating      "softmax" as above, or "top1" (RecBoard): q_l = cos(e, c) c / |c| of the best codeword alone
    encoder     "identity" as in the formulas, or "mlp": the same on E(x), Linear+ReLU over `hidden` to `latent`
    decoder     "mirror" of the encoder (nothing for the identity), or "wide" (RecBoard): one hidden layer of 4 d
    recon       "squared" error, or 1 - "cosine" (RecBoard)
    reduction   of the squared error: "sum" over features as |x - x^|^2 says, or "mean"
    metric      "groups": SC and PD of the batch grouped by prefix, PD over at most `pd_groups` of them;
                "codewords": RecBoard's stand-ins
    Inferred: r starts from U(-1, 1) (RecBoard); groups are represented by sum_{m<=l} q_m; the initial codebooks are
    Euclidean k-means; reduction.
    """

    sizes: tuple[int, ...]
    rating: Literal["softmax", "top1"] = "softmax"
    temperature: float = 1.0
    encoder: Literal["identity", "mlp"] = "identity"
    hidden: tuple[int, ...] = (512, 256, 128, 64)
    latent: int = 32
    decoder: Literal["mirror", "wide"] = "mirror"
    recon: Literal["squared", "cosine"] = "squared"
    reduction: Literal["mean", "sum"] = "sum"
    metric: Literal["groups", "codewords"] = "groups"
    sc_weight: float = 0.01
    pd_weight: float = 0.01
    pd_scale: float = 2.0
    pd_groups: int = 512
    training: Training = R3_PUBLIC

    def __post_init__(self) -> None:
        self.training.require_start(self.sizes)
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise SpecError(f"{name} must be {' or '.join(map(repr, known))}, not {getattr(self, name)!r}")
        if not (self.temperature > 0 and np.isfinite(self.temperature)):
            raise SpecError(f"temperature must be positive and finite, not {self.temperature}")
        require_widths(self.hidden, self.latent)
        if not 2 <= self.pd_groups <= WIDEST:
            raise SpecError(f"pd_groups must be at least 2, and at most {WIDEST}, not {self.pd_groups}")

    def widths(self, d: int) -> tuple[int, ...]:
        """The encoder's widths; the identity has one."""
        return (d, *self.hidden, self.latent) if self.encoder == "mlp" else (d,)

    def decoder_widths(self, d: int) -> tuple[int, ...]:
        widths = self.widths(d)
        return widths[::-1] if self.decoder == "mirror" else (widths[-1], 4 * d, d)

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        need("torch", "torch", "training an R3-VAE")
        return run.check_starts(shape[0], self.sizes, level)

    def work(self) -> Work:
        """None that moves the rows: training takes a GPU wherever they are."""
        return Work(0.0)

    def fit(self, rows: Rows, run: FitContext) -> FittedR3VAE:
        return self.fit_seeds(rows, [run])[0]

    def fit_seeds(self, rows: Rows, runs: Sequence[FitContext]) -> list[FittedR3VAE]:
        """Runs that differ in their seeds, trained at once."""
        self.check(rows.shape, rows.width, runs[0])
        from .loop import train
        from .r3vae_network import R3VAENetwork

        d = rows.shape[1]
        trained = train(lambda g: R3VAENetwork.new(self, d, g), self.training, rows, runs, "r3-vae")
        return [self.restore(arrays, d) for arrays in trained]

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedR3VAE:
        widths = self.widths(d)
        return FittedR3VAE(
            self,
            require_array(arrays, "reference", (widths[-1],)),
            read_layers(arrays, "encoder", widths),
            read_layers(arrays, "decoder", self.decoder_widths(d)),
            read_codebooks(arrays, self.sizes, widths[-1], "cosine"),
        )


@dataclass(frozen=True, eq=False)
class FittedR3VAE(FittedCodebooks):
    spec: R3VAE
    reference: NDArray[Any]
    encoder: tuple[Layer, ...]
    decoder: tuple[Layer, ...]
    books: tuple[Centroids, ...]

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"reference": self.reference} | self.layers_and_books

    def tokens(self, x: Array, codes: Array) -> Array:
        e, columns = self._project(x)[1], []
        for book in self.books:
            columns.append(book.assign(single(e), codes))
            e = e - self._quantized(e, book, columns[-1])
        return namespace(e).stack(columns, 1)

    def token_costs(self, x: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[np.float64]]:
        e, costs = self._project(x)[1], []
        for book, token in zip(self.books, codes[:, codes.shape[1] - len(self.sizes) :].T, strict=True):
            costs.append(book.costs(single(e)))
            e = e - self._quantized(e, book, token)
        return costs

    def carry(self, x: Array, codes: Array) -> Array:
        """The error of the reconstruction, x - x^: (n, d)."""
        along, e = self._project(x)
        tokens, rebuilt = codes[:, codes.shape[1] - len(self.sizes) :], along
        for level, book in enumerate(self.books):
            q = self._quantized(e, book, tokens[:, level])
            rebuilt, e = rebuilt + q, e - q
        return x - like(forward(rebuilt, self.decoder), x)

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NoReturn:
        raise SpecError(
            "codes of an R3-VAE stand for no vector: the part along its reference direction, and how codewords are "
            "mixed, come from the row and not from its codes"
        )

    def _project(self, x: Array) -> tuple[Array, Array]:
        """The part of E(x) along the reference, and the rest, in float64."""
        z = forward(x, self.encoder)
        rest = residual(z, like(self.reference, z)[None, :], keep=0.0)
        return z - rest, rest

    def _quantized(self, e: Array, book: Centroids, code: Array) -> Array:
        """q of every row, in float64: (n, e)."""
        c = like(book.centroids, e)
        if self.spec.rating == "top1":
            chosen = unit(c[code])
            return (unit(e) * chosen).sum(axis=-1, keepdims=True) * chosen
        return product(softmax(product(unit(e), unit(c).T) / self.spec.temperature), c)


def softmax(score: Array) -> Array:
    """exp of every row, made to sum to one: (n, K) -> (n, K)."""
    if not isinstance(score, np.ndarray):
        return double(score).softmax(dim=1)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


_CHOICES = {
    "rating": ("softmax", "top1"),
    "encoder": ("identity", "mlp"),
    "decoder": ("mirror", "wide"),
    "recon": ("squared", "cosine"),
    "reduction": ("mean", "sum"),
    "metric": ("groups", "codewords"),
}
