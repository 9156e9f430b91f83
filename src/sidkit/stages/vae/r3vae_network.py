"""The R3-VAE while it is trained, in torch. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cosine_similarity, embedding, normalize

from .groups import cohesion, discrimination, group_means, renumber
from .layers import Tensor, Weights, apply, new_weights, squared_error
from .train import Step

if TYPE_CHECKING:
    from .r3vae import R3VAE

__all__ = ["R3VAENetwork"]


@dataclass(frozen=True, eq=False)
class R3VAENetwork:
    spec: R3VAE
    weights: Weights

    @classmethod
    def new(cls, spec: R3VAE, d: int, generator: Any) -> R3VAENetwork:
        """Fresh weights: the reference from U(-1, 1), codebooks zero until they are started."""
        widths = spec.widths(d)
        reference = torch.empty(widths[-1]).uniform_(-1.0, 1.0, generator=generator)
        weights = new_weights(widths, spec.decoder_widths(d), spec.sizes, generator)
        return cls(spec, {"reference": reference} | weights)

    def loss(self, x: Tensor) -> Step:
        """Reconstruction, less sc_weight times SC, plus pd_weight times PD, both averaged over levels."""
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
        return Step(loss, torch.stack(codes, dim=1), {"recon": recon, "SC": sc, "PD": pd})

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The part of E(x) along the reference, and the rest: (B, e) each."""
        z, r = apply(x, self.weights, "encoder"), self.weights["reference"]
        along = (z @ r / (r @ r))[:, None] * r
        return along, z - along

    def recurse(self, e: Tensor, levels: int | None = None) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Per level the codes and what the level takes, then what is left."""
        codes, parts = [], []
        for level in range(len(self.spec.sizes) if levels is None else levels):
            code, q = self.rate(e, self.weights[f"codebook.{level}"])
            codes.append(code)
            parts.append(q)
            e = e - q
        return codes, parts, e

    def rate(self, e: Tensor, book: Tensor) -> tuple[Tensor, Tensor]:
        """Every row's best-rated codeword, and what the level takes of it: (B,), (B, e)."""
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
        """SC and PD of the batch, rows grouped by prefix and represented by what the levels so far took of them."""
        group, v = torch.zeros_like(codes[0]), torch.zeros_like(e0)
        found: tuple[list[Tensor], list[Tensor]] = ([], [])
        for code, q in zip(codes, parts, strict=True):
            group, v = renumber(group, code), v + q
            found[0].append(cohesion(v, group))
            found[1].append(discrimination(group_means(v, group, self.spec.pd_groups), self.spec.pd_scale))
        return _mean(found[0], e0), _mean(found[1], e0)

    def _by_codewords(
        self, along: Tensor, e0: Tensor, codes: list[Tensor], parts: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """RecBoard's stand-ins: cos of e0 with what is rebuilt so far, less one; PD of the level's codewords."""
        v, sc, pd = along, [], []
        for level, q in enumerate(parts):
            v = v + q
            sc.append(cosine_similarity(e0, v, dim=1).mean() - 1.0)
            pd.append(discrimination(self.weights[f"codebook.{level}"], self.spec.pd_scale))
        return _mean(sc, e0), _mean(pd, e0)


def _mean(found: list[Tensor], like: Tensor) -> Tensor:
    """The mean over the levels that have a value; zero where none has."""
    there = [value for value in found if value is not None]
    return torch.stack(there).mean() if there else like.new_zeros(())
