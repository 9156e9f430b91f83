"""The loss of the RQ-VAE, in torch, for all runs of a stack. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .dense import codewords
from .network import WHOLE, BatchPart, BatchResult
from .sinkhorn import sinkhorn
from .torch_layers import Tensor, Weights, apply, new_weights, squared_error

if TYPE_CHECKING:
    from .rqvae import RQVAE

__all__ = ["Quantized", "RQVAENetwork"]


class Quantized(NamedTuple):
    vector: Tensor  # (R, B, e): the sum of the codewords, straight through to z
    codes: Tensor  # (R, B, L)
    codebook: list[Tensor]  # per level |sg(r) - q|^2, (R,), which moves codewords
    commit: list[Tensor]  # per level |r - sg(q)|^2, (R,), which moves the encoder
    residual: Tensor  # (R, B, e): after the last level


@dataclass(frozen=True, eq=False)
class RQVAENetwork:
    spec: RQVAE
    weights: Weights

    @classmethod
    def new(cls, spec: RQVAE, d: int, generator: Any) -> RQVAENetwork:
        """New weights of one run; the codebooks are zero until k-means sets them."""
        widths = spec.widths(d)
        return cls(spec, new_weights(widths, widths[::-1], spec.sizes, generator))

    def having(self, weights: Weights) -> RQVAENetwork:
        return replace(self, weights=weights)

    def loss(self, x: Tensor, part: BatchPart = WHOLE) -> BatchResult:
        """recon + quant_weight * (codebook + beta commit over the levels), on batches x (R, B, d)."""
        spec = self.spec
        out = self.quantize(apply(x, self.weights, "encoder"), balance=True, part=part)
        recon = part.weighed(squared_error(apply(out.vector, self.weights, "decoder"), x, spec.reduction))
        levels = torch.stack([a + spec.beta * b for a, b in zip(out.codebook, out.commit, strict=True)])
        quant = part.weighed(levels.mean(dim=0) if spec.reduction == "mean" else levels.sum(dim=0))
        return BatchResult(recon + spec.quant_weight * quant, out.codes, {"recon": recon, "quant": quant})

    def quantize(self, z: Tensor, balance: bool, levels: int | None = None, part: BatchPart = WHOLE) -> Quantized:
        """Level by level: the codeword of the residual, then the residual without it.

        The residual reaches the next level without a gradient ("detached": the straight-through vector is subtracted,
        and r - [r + sg(q - r)] has none), or with the gradient of z ("through": r - sg(q)). In both cases the gradient
        of the reconstruction reaches z once, and the codebooks never.
        """
        spec, r, total = self.spec, z, torch.zeros_like(z)
        codes, codebook, commit = [], [], []
        for level in range(len(spec.sizes) if levels is None else levels):
            book = self.weights[f"codebook.{level}"]
            code = self._choose(r.detach(), book.detach(), spec.balance[level] if balance else 0.0, part)
            q = codewords(book, code)
            codebook.append(squared_error(q, r.detach(), spec.reduction))
            commit.append(squared_error(r, q.detach(), spec.reduction))
            codes.append(code)
            total = total + q.detach()
            r = r - q.detach()
            if spec.residual_grad == "detached":
                r = r.detach()
        return Quantized(z + (total - z).detach(), _columns(codes, z), codebook, commit, r)

    def codes(self, x: Tensor) -> Tensor:
        """The tokens of x, nearest codewords at every level: (R, B, L)."""
        return self.quantize(apply(x, self.weights, "encoder"), balance=False).codes

    def residual(self, x: Tensor, level: int, part: BatchPart = WHOLE) -> Tensor:
        return self.quantize(apply(x, self.weights, "encoder"), balance=True, levels=level, part=part).residual

    def _choose(self, r: Tensor, book: Tensor, epsilon: float, part: BatchPart) -> Tensor:
        if epsilon > 0:  # defined by the whole batch
            distance = _distances(part.gathered(r), book)
            return part.here(sinkhorn(distance, epsilon, self.spec.sinkhorn_iterations).argmax(dim=2))
        return _distances(r, book).argmin(dim=2)


def _distances(r: Tensor, book: Tensor) -> Tensor:
    """The squared distances of rows and codewords: (R, B, K)."""
    squares = r.square().sum(dim=2, keepdim=True) + book.square().sum(dim=2)[:, None]
    return torch.baddbmm(squares, r, book.transpose(1, 2), alpha=-2)


def _columns(codes: list[Tensor], z: Tensor) -> Tensor:
    return torch.stack(codes, dim=2) if codes else torch.empty(*z.shape[:2], 0, dtype=torch.int64, device=z.device)
