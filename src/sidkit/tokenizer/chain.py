"""The stages of a tokenizer as one stage, which gives all tokens of a chunk in a single pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engine import native
from ..geometry import Array
from ..rows.seam import leading_steps
from ..stages.stage import Fitted

__all__ = ["StageChain"]


@dataclass(frozen=True)
class StageChain:
    """Fitted stages, one after the other."""

    stages: tuple[Fitted, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(size) for stage in self.stages for size in stage.sizes)

    def tokens(self, x: Array, codes: Array) -> Array:
        if native.ready(x):
            compiled = self._compiled(x)
            if compiled is not None:
                return native.encode(x, compiled)
        out = np.empty((len(x), len(self.sizes)), np.int32)
        done = 0  # tokens
        for stage in self.stages:
            if stage.sizes:
                out[:, done : done + len(stage.sizes)] = stage.tokens(x, out[:, :done])
                done += len(stage.sizes)
            if done < out.shape[1]:
                x = stage.carry(x, out[:, :done])
        return out

    def carry(self, x: Array, codes: Array) -> Array:
        return x

    def _compiled(self, x: Array) -> native.CarryChain | None:
        """All stages for one call of the compiled kernels, or None if a stage is not of their kind; made once."""
        if "compiled" not in self.__dict__:
            steps = leading_steps(self.stages, x)
            complete = len(steps) == len(self.stages) and all(
                (step.book is not None) == bool(stage.sizes) for step, stage in zip(steps, self.stages, strict=True)
            )
            self.__dict__["compiled"] = native.CarryChain(steps) if complete else None
        compiled: native.CarryChain | None = self.__dict__["compiled"]
        return compiled
