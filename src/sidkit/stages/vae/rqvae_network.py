"""The loss of the RQ-VAE, in torch. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import embedding

from .loop import BatchResult
from .sinkhorn import sinkhorn
from .torch_layers import Tensor, Weights, apply, new_weights, squared_error

if TYPE_CHECKING:
    from .rqvae import RQVAE

__all__ = ["Quantized", "RQVAENetwork"]


class Quantized(NamedTuple):
    vector: Tensor  # (B, e): the sum of the codewords, straight through to z
    codes: Tensor  # (B, L)
    codebook: list[Tensor]  # per level |sg(r) - q|^2, which moves codewords
    commit: list[Tensor]  # per level |r - sg(q)|^2, which moves the encoder
    residual: Tensor  # (B, e): after the last level


@dataclass(frozen=True, eq=False)
class RQVAENetwork:
    spec: RQVAE
    weights: Weights

    @classmethod
    def new(cls, spec: RQVAE, d: int, generator: Any) -> RQVAENetwork:
        """New weights; the codebooks are zero until k-means sets them."""
        widths = spec.widths(d)
        return cls(spec, new_weights(widths, widths[::-1], spec.sizes, generator))

    def loss(self, x: Tensor) -> BatchResult:
        """recon + quant_weight * (codebook + beta commit over the levels), on a batch x (B, d)."""
        spec = self.spec
        out = self.quantize(apply(x, self.weights, "encoder"), balance=True)
        recon = squared_error(apply(out.vector, self.weights, "decoder"), x, spec.reduction)
        levels = torch.stack([a + spec.beta * b for a, b in zip(out.codebook, out.commit, strict=True)])
        quant = levels.mean() if spec.reduction == "mean" else levels.sum()
        return BatchResult(recon + spec.quant_weight * quant, out.codes, {"recon": recon, "quant": quant})

    def quantize(self, z: Tensor, balance: bool, levels: int | None = None) -> Quantized:
        """Level by level: the codeword of the residual, then the residual without it.

        The residual reaches the next level without a gradient ("detached": the straight-through vector is subtracted,
        and r - [r + sg(q - r)] has none), or with the gradient of z ("through": r - sg(q)). In both cases the gradient
        of the reconstruction reaches z once, and the codebooks never.
        """
        spec, r, total = self.spec, z, torch.zeros_like(z)
        codes, codebook, commit = [], [], []
        for level in range(len(spec.sizes) if levels is None else levels):
            book = self.weights[f"codebook.{level}"]
            code = self._choose(r.detach(), book.detach(), spec.balance[level] if balance else 0.0)
            q = embedding(code, book)  # (B, e); its gradient is summed in a fixed order, that of book[code] is not
            codebook.append(squared_error(q, r.detach(), spec.reduction))
            commit.append(squared_error(r, q.detach(), spec.reduction))
            codes.append(code)
            total = total + q.detach()
            r = r - q.detach()
            if spec.residual_grad == "detached":
                r = r.detach()
        return Quantized(z + (total - z).detach(), _columns(codes, z), codebook, commit, r)

    def codes(self, x: Tensor) -> Tensor:
        """The tokens of x, nearest codewords at every level: (B, L)."""
        return self.quantize(apply(x, self.weights, "encoder"), balance=False).codes

    def residual(self, x: Tensor, level: int) -> Tensor:
        """The residual of x that a level quantizes in training: (B, e)."""
        return self.quantize(apply(x, self.weights, "encoder"), balance=True, levels=level).residual

    def _choose(self, r: Tensor, book: Tensor, epsilon: float) -> Tensor:
        distance = (r * r).sum(dim=1, keepdim=True) + (book * book).sum(dim=1) - 2 * (r @ book.T)  # (B, K)
        if epsilon > 0:
            return sinkhorn(distance, epsilon, self.spec.sinkhorn_iterations).argmax(dim=1)
        return distance.argmin(dim=1)


def _columns(codes: list[Tensor], z: Tensor) -> Tensor:
    return torch.stack(codes, dim=1) if codes else torch.empty(len(z), 0, dtype=torch.int64, device=z.device)
