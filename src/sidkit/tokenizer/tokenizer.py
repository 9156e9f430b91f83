"""A tokenizer is a tuple of stages; fitting one returns another object that encodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows, as_source, is_rows
from ..engine import native
from ..errors import InputError, SpecError
from ..files.checkpoint import Checkpoint
from ..geometry import Array
from ..progress import Progress, Silent
from ..rows.device import ran_on, work_of_fit
from ..rows.seam import Rows, leading_steps
from ..stages.prepare import FittedRemoveMean
from ..stages.stage import Checks, Fitted, Run, Stage
from .fingerprint import content_digest, fingerprint
from .spec import to_plain

__all__ = ["FittedTokenizer", "Tokenizer"]


@dataclass(frozen=True)
class Tokenizer:
    """How to make semantic IDs: a frozen value, not fitted."""

    stages: tuple[Stage, ...]
    name: str = field(default="", compare=False)  # the recipe it came from, for people

    def __post_init__(self) -> None:
        if not self.stages:
            raise SpecError("a tokenizer needs at least one stage")
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise SpecError(f"{type(stage).__name__} is not a stage: it has no fit or no restore")

    def fit(
        self,
        X: Any,
        seed: int = 0,
        init: Sequence[NDArray[np.integer[Any]]] | None = None,
        device: str = "auto",
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> FittedTokenizer:
        """Fit to embeddings: an array, a tensor, a path, or Rows.

        init, where given, names per level the rows whose current residuals start the codebook, which makes a fit
        reproducible against any other implementation.
        checkpoint, where given, is a folder that keeps finished stages and, once a minute, the state of an unfinished
        one: a fit that was killed and is called again ends as if it had never stopped.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise SpecError(f"the seed must be a whole number from 0 on, not {seed!r}")
        report = progress or Silent()
        beside = None if checkpoint is None else Path(checkpoint).absolute().parent
        if not is_rows(X) and not getattr(X, "is_cuda", False):
            X = as_source(X)
        roles = dict(getattr(X, "spans", {}))
        run = Run(int(seed), init, report, device)
        self._check(X.shape, run)
        rows = as_rows(X, device, report, scratch=beside, work=work_of_fit(self.stages))
        mark = fingerprint(rows)
        if checkpoint is not None:
            identity = self._identity(int(seed), init, mark + content_digest(X))
            run = replace(run, checkpoint=Checkpoint(checkpoint, identity))
        fitted: list[Fitted] = []
        for i, stage in enumerate(self.stages):
            fitted.append(_fit_once(stage, rows, run, f"stage-{i}"))
            if fitted[-1].sizes:
                report.start("assign", rows.shape[0])
            rows = rows.map(fitted[-1])
        dtype = np.dtype(rows.dtype).name
        return FittedTokenizer(self, tuple(fitted), rows.shape[1], dtype, int(seed), rows, mark, roles=roles)

    def _check(self, shape: tuple[int, int], run: Run) -> None:
        """The error that a later stage would end the fit with, before any row is read."""
        if shape[0] == 0:
            raise InputError("there are no rows to fit")
        level = 0
        for stage in self.stages:
            if not isinstance(stage, Checks):
                return
            level = stage.check(shape, level, run)
        if run.init is not None and len(run.init) > level:
            raise SpecError(f"init names rows for {len(run.init)} levels, and there are {level}")

    def _identity(self, seed: int, init: Any, mark: str) -> str:
        """What must be equal for an interrupted fit to be gone on with."""
        first = None if init is None else [None if rows is None else np.asarray(rows).tolist() for rows in init]
        return json.dumps([to_plain(self.stages), seed, first, mark])


def _fit_once(stage: Stage, rows: Rows, run: Run, key: str) -> Fitted:
    """The stage fitted, or restored if an interrupted fit had finished it."""
    saved = run.checkpoint.load(key) if run.checkpoint is not None else None
    if saved is not None:
        return stage.restore(saved[0], rows.shape[1])
    fitted = stage.fit(rows, run)
    if run.checkpoint is not None:
        run.checkpoint.save(key, fitted.arrays, {})
    return fitted


@dataclass(frozen=True, eq=False)
class FittedTokenizer:
    """Fitted stages. Encodes, saves, and shows what it learned."""

    spec: Tokenizer
    stages: tuple[Fitted, ...]
    d: int
    dtype: str
    seed: int
    fitted_rows: Rows | None = field(default=None, repr=False)  # the rows it was fitted on; not saved
    data_fingerprint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)  # kept in config.json
    roles: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)  # of a joint fit: role -> its rows

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codewords each token can take."""
        return tuple(int(size) for stage in self.stages for size in stage.sizes)

    @property
    def mean(self) -> NDArray[Any] | None:
        """The global mean mu, (d,); None where the tokenizer removes none."""
        return next((stage.mean for stage in self.stages if isinstance(stage, FittedRemoveMean)), None)

    @property
    def codebooks(self) -> list[NDArray[Any]]:
        """The centroids behind each token, (K, d) each, in the space the token is decided in.

        A level with a codebook per parent has them all in one array, parent after parent; FSQ tokens have none.
        """
        return [book for stage in self.stages for book in getattr(stage, "codebooks", ())]

    @property
    def fit_codes(self) -> NDArray[np.int32] | None:
        """The tokens of the rows it was fitted on; None once loaded from disk."""
        return None if self.fitted_rows is None else self.fitted_rows.codes()

    def encode(
        self,
        X: Any,
        device: str = "auto",
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        spread: bool = False,
        ran: dict[str, Any] | None = None,
    ) -> NDArray[np.int32]:
        """Semantic IDs of embeddings: int32, (n, number of tokens).

        checkpoint, where given, is a folder that keeps what is encoded, a million rows at a time: a call that was
        killed and is made again does not repeat them.
        spread deals the last tokens out so that these rows share as few SIDs as they can (`sidkit.spread`): for a whole
        catalogue at once, since a row's last token then depends on the others.
        ran, where given, is filled with where the rows were worked on (`device.ran_on`); nothing where no row was.
        """
        report = progress or Silent()
        if spread:
            from ..sids.spread import require_spreadable
            from ..sids.spread import spread as spread_out

            require_spreadable(self)
            return spread_out(self, X, self.encode(X, device, progress, checkpoint, ran=ran), report)
        if checkpoint is not None:
            from .windows import encode_in_windows

            return encode_in_windows(self, X, device, report, checkpoint, ran)
        rows = as_rows(X, device, report, np.dtype(self.dtype), self.d, "read", work=sum(self.sizes))
        report.start("encode", rows.shape[0])
        rows = rows.map(self.chain)
        if ran is not None:
            ran.update(ran_on(rows, encoding=True))
        return rows.codes()

    @cached_property
    def chain(self) -> Chain:
        """All stages as one: every token of a chunk in a single pass."""
        return Chain(self.stages)

    def save(self, path: str | Path) -> Path:
        """Write the model folder: config.json, model.safetensors, README.md."""
        from .store import save

        return save(self, Path(path))

    save_pretrained = save

    @classmethod
    def from_pretrained(cls, path: str | Path) -> FittedTokenizer:
        """Read a model folder."""
        from .store import load

        return load(path)


@dataclass(frozen=True)
class Chain:
    """Stages one after the other, as one: all tokens of a chunk in a single pass."""

    stages: tuple[Fitted, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(size) for stage in self.stages for size in stage.sizes)

    def tokens(self, x: Array, codes: Array) -> Array:
        if native.ready(x):
            swept = self._swept(x)
            if swept is not None:
                return native.encode(x, swept)
        out = np.empty((len(x), len(self.sizes)), np.int32)
        seen = 0
        for stage in self.stages:
            if stage.sizes:
                out[:, seen : seen + len(stage.sizes)] = stage.tokens(x, out[:, :seen])
                seen += len(stage.sizes)
            if seen < out.shape[1]:
                x = stage.carry(x, out[:, :seen])
        return out

    def carry(self, x: Array, codes: Array) -> Array:
        return x

    def _swept(self, x: Array) -> native.Chain | None:
        """All stages as one sweep of the compiled kernels, where they are of that kind."""
        if "swept" not in self.__dict__:
            steps = leading_steps(self.stages, x)
            whole = len(steps) == len(self.stages) and all(
                (step.book is not None) == bool(stage.sizes) for step, stage in zip(steps, self.stages, strict=True)
            )
            self.__dict__["swept"] = native.Chain(steps) if whole else None
        found: native.Chain | None = self.__dict__["swept"]
        return found
