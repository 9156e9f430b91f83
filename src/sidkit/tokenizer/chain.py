"""The stages of a tokenizer as one stage, which gives all tokens of a chunk in a single pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engine import native
from ..geometry import Array
from ..rows.seam import leading_steps
from ..stages.level import FittedLevel
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
        out = np.empty((len(x), len(self.sizes)), np.int32)
        begun, done = 0, 0  # stages, tokens
        if native.ready(x):
            begun, compiled = self._compiled(x)
            if begun == len(self.stages):
                return native.encode(x, compiled)
            if begun:
                passed_on = np.empty(x.shape, np.float32)
                out[:, : compiled.width] = native.encode(x, compiled, passed_on)
                x, done = passed_on, compiled.width
        for stage in self.stages[begun:]:
            if isinstance(stage, FittedLevel) and done + 1 < out.shape[1]:
                out[:, done : done + 1], x = stage.settle(x, out[:, :done])
                done += 1
                continue
            if stage.sizes:
                out[:, done : done + len(stage.sizes)] = stage.tokens(x, out[:, :done])
                done += len(stage.sizes)
            if done < out.shape[1]:
                x = stage.carry(x, out[:, :done])
        return out

    def carry(self, x: Array, codes: Array) -> Array:
        return x

    def _compiled(self, x: Array) -> tuple[int, native.CarryChain]:
        """How many stages, from the first on, one call of the compiled kernels can do, and their chain; made once."""
        if "compiled" not in self.__dict__:
            steps = leading_steps(self.stages, x)
            fitting = [(step.book is not None) == bool(stage.sizes) for step, stage in zip(steps, self.stages)]  # noqa: B905
            begun = fitting.index(False) if False in fitting else len(fitting)
            self.__dict__["compiled"] = begun, native.CarryChain(steps[:begun], ends=begun == len(self.stages))
        compiled: tuple[int, native.CarryChain] = self.__dict__["compiled"]
        return compiled
