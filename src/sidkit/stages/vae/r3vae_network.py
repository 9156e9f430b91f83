"""The loss of the R3-VAE, in torch, for all runs of a stack. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cosine_similarity, normalize

from .batch_coherence import cohesion, discrimination, group_means, mean_over_levels, renumber
from .dense import codewords, dense
from .network import WHOLE, BatchPart, BatchResult
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
        """New weights of one run: the reference from U(-1, 1), codebooks zero until k-means sets them."""
        widths = spec.widths(d)
        reference = torch.empty(1, widths[-1]).uniform_(-1.0, 1.0, generator=generator)
        weights = new_weights(widths, spec.decoder_widths(d), spec.sizes, generator)
        return cls(spec, {"reference": reference} | weights)

    def having(self, weights: Weights) -> R3VAENetwork:
        return replace(self, weights=weights)

    def loss(self, x: Tensor, part: BatchPart = WHOLE) -> BatchResult:
        """recon - sc_weight * SC + pd_weight * PD, both averaged over levels, on batches x (R, B, d)."""
        spec = self.spec
        along, e0 = self.project(x)
        codes, parts, _ = self.recurse(e0)
        rebuilt = apply(along + torch.stack(parts).sum(dim=0), self.weights, "decoder")
        if spec.recon == "cosine":
            recon = 1.0 - cosine_similarity(rebuilt, x, dim=2).mean(dim=1)
        else:
            recon = squared_error(rebuilt, x, spec.reduction)
        recon = part.weighed(recon)
        if spec.metric == "groups":
            sc, pd = self._by_groups(codes, parts, part)
        else:
            sc, pd = (part.weighed(value) for value in self._by_codewords(along, e0, parts))
        loss = recon - spec.sc_weight * sc + spec.pd_weight * pd
        return BatchResult(loss, torch.stack(codes, dim=2), {"recon": recon, "SC": sc, "PD": pd})

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The part of E(x) along the reference, and the rest: (R, B, e) each."""
        z, r = apply(x, self.weights, "encoder"), self.weights["reference"][:, None]  # (R, 1, e)
        along = ((z * r).sum(dim=2, keepdim=True) / (r * r).sum(dim=2, keepdim=True)) * r
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
        """The best-rated codeword of every row, and q: (R, B), (R, B, e)."""
        direction = normalize(e, dim=2)
        score = dense(direction, normalize(book, dim=2))  # (R, B, K): cosines
        code = score.argmax(dim=2)
        if self.spec.rating == "softmax":
            return code, dense(torch.softmax(score / self.spec.temperature, dim=2), book.transpose(1, 2))
        chosen = normalize(codewords(book, code), dim=2)
        return code, (direction * chosen).sum(dim=2, keepdim=True) * chosen

    def codes(self, x: Tensor) -> Tensor:
        return torch.stack(self.recurse(self.project(x)[1])[0], dim=2)

    def residual(self, x: Tensor, level: int, part: BatchPart = WHOLE) -> Tensor:
        return self.recurse(self.project(x)[1], level)[2]

    def _by_groups(self, codes: list[Tensor], parts: list[Tensor], part: BatchPart) -> tuple[Tensor, Tensor]:
        """SC and PD of the batch, rows grouped by prefix and represented by the sum of q over the levels so far."""
        codes, parts = ([*part.gathered(torch.stack(each, dim=2)).unbind(2)] for each in (codes, parts))
        index, v = torch.zeros_like(codes[0]), torch.zeros_like(parts[0])
        sc, pd = [], []
        for level, (code, q) in enumerate(zip(codes, parts, strict=True)):
            places = min(v.shape[1], prod(self.spec.sizes[: level + 1]))
            groups, v = renumber(index, code, self.spec.sizes[level], places), v + q
            index = groups.index
            sc.append(cohesion(v, groups))
            pd.append(discrimination(*group_means(v, groups, self.spec.pd_groups), self.spec.pd_scale))
        return part.once(mean_over_levels(sc)), part.once(mean_over_levels(pd))

    def _by_codewords(self, along: Tensor, e0: Tensor, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """RecBoard's stand-ins: SC = cos(e0, reconstruction so far) - 1; PD over the level's codewords."""
        v, sc, pd = along, [], []
        for level, q in enumerate(parts):
            v, book = v + q, self.weights[f"codebook.{level}"]
            known = torch.ones(book.shape[:2], dtype=torch.bool, device=book.device)
            sc.append((cosine_similarity(e0, v, dim=2).mean(dim=1) - 1.0, known[:, 0]))
            pd.append(discrimination(book, known, self.spec.pd_scale))
        return mean_over_levels(sc), mean_over_levels(pd)
