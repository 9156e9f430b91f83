"""The loss of the R3-VAE, in torch. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cosine_similarity, embedding, normalize

from .batch_coherence import cohesion, discrimination, group_means, renumber
from .loop import BatchResult
from .torch_layers import Tensor, Weights, apply, new_weights, squared_error

if TYPE_CHECKING:
    from .r3vae import R3VAE

__all__ = ["R3VAENetwork"]


@dataclass(frozen=True, eq=False)
class R3VAENetwork:
    spec: R3VAE
    weights: Weights

    @classmethod
    def new(cls, spec: R3VAE, d: int, generator: Any) -> R3VAENetwork:
        """New weights: the reference from U(-1, 1), codebooks zero until k-means sets them."""
        widths = spec.widths(d)
        reference = torch.empty(widths[-1]).uniform_(-1.0, 1.0, generator=generator)
        weights = new_weights(widths, spec.decoder_widths(d), spec.sizes, generator)
        return cls(spec, {"reference": reference} | weights)

    def loss(self, x: Tensor) -> BatchResult:
        """recon - sc_weight * SC + pd_weight * PD, both averaged over levels."""
        spec = self.spec
        along, e0 = self.project(x)
        codes, parts, _ = self.recurse(e0)
        rebuilt = apply(along + torch.stack(parts).sum(dim=0), self.weights, "decoder")
        if spec.recon == "cosine":
            recon = 1.0 - cosine_similarity(rebuilt, x, dim=1).mean()
        else:
            recon = squared_error(rebuilt, x, spec.reduction)
        measure = self._by_groups if spec.metric == "groups" else self._by_codewords
        sc, pd = measure(along, e0, codes, parts)
        loss = recon - spec.sc_weight * sc + spec.pd_weight * pd
        return BatchResult(loss, torch.stack(codes, dim=1), {"recon": recon, "SC": sc, "PD": pd})

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The part of E(x) along the reference, and the rest: (B, e) each."""
        z, r = apply(x, self.weights, "encoder"), self.weights["reference"]
        along = (z @ r / (r @ r))[:, None] * r
        return along, z - along

    def recurse(self, e: Tensor, levels: int | None = None) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Per level the codes and q, then the residual after the last one."""
        codes, parts = [], []
        for level in range(len(self.spec.sizes) if levels is None else levels):
            code, q = self.rate(e, self.weights[f"codebook.{level}"])
            codes.append(code)
            parts.append(q)
            e = e - q
        return codes, parts, e

    def rate(self, e: Tensor, book: Tensor) -> tuple[Tensor, Tensor]:
        """The best-rated codeword of every row, and q: (B,), (B, e)."""
        score = normalize(e, dim=1) @ normalize(book, dim=1).T  # (B, K): cosines
        code = score.argmax(dim=1)
        if self.spec.rating == "softmax":
            return code, torch.softmax(score / self.spec.temperature, dim=1) @ book
        chosen = normalize(embedding(code, book), dim=1)
        return code, (normalize(e, dim=1) * chosen).sum(dim=1, keepdim=True) * chosen

    def codes(self, x: Tensor) -> Tensor:
        return torch.stack(self.recurse(self.project(x)[1])[0], dim=1)

    def residual(self, x: Tensor, level: int) -> Tensor:
        return self.recurse(self.project(x)[1], level)[2]

    def _by_groups(self, along: Tensor, e0: Tensor, codes: list[Tensor], parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """SC and PD of the batch, rows grouped by prefix and represented by the sum of q over the levels so far."""
        group, v = torch.zeros_like(codes[0]), torch.zeros_like(e0)
        sc, pd = [], []
        for code, q in zip(codes, parts, strict=True):
            group, v = renumber(group, code), v + q
            sc.append(cohesion(v, group))
            pd.append(discrimination(group_means(v, group, self.spec.pd_groups), self.spec.pd_scale))
        return _mean(sc, e0), _mean(pd, e0)

    def _by_codewords(
        self, along: Tensor, e0: Tensor, codes: list[Tensor], parts: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """RecBoard's stand-ins: SC = cos(e0, reconstruction so far) - 1; PD over the level's codewords."""
        v, sc, pd = along, [], []
        for level, q in enumerate(parts):
            v = v + q
            sc.append(cosine_similarity(e0, v, dim=1).mean() - 1.0)
            pd.append(discrimination(self.weights[f"codebook.{level}"], self.spec.pd_scale))
        return _mean(sc, e0), _mean(pd, e0)


def _mean(by_level: list[Tensor], like: Tensor) -> Tensor:
    """The mean over the levels that have a value; zero where none has."""
    values = [value for value in by_level if value is not None]
    return torch.stack(values).mean() if values else like.new_zeros(())
