"""Fitting the stages of a tokenizer, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.inputs import as_rows, as_source, is_on_gpu, is_rows
from ..data.joint import ITEMS, Joint, spans_of
from ..data.source import chosen_columns
from ..errors import InputError, SpecError
from ..files.checkpoint import Checkpoint
from ..rows.seam import Rows
from ..rows.work import work_of_fit
from ..stages.stage import Checks, FitContext, Fitted, Stage
from .fingerprint import content_digest, fingerprint
from .spec import to_plain

__all__ = ["FitResult", "fit_stages"]


class FitResult(NamedTuple):
    """The fitted stages, the rows after all of them, the fingerprint of the data; by role its rows and its columns."""

    stages: tuple[Fitted, ...]
    rows: Rows
    data_fingerprint: str
    roles: Mapping[str, tuple[int, int]]
    columns: Mapping[str, Mapping[str, str | None]]


def fit_stages(stages: Sequence[Stage], X: Any, run: FitContext, checkpoint: str | Path | None) -> FitResult:
    """Fit to embeddings; what a fit of the same stages and data left in the checkpoint's folder is not fitted again."""
    scratch = None if checkpoint is None else Path(checkpoint).absolute().parent
    if not is_rows(X) and not is_on_gpu(X):
        X = as_source(X)
    _require_fittable(stages, X.shape, run)
    rows = as_rows(X, run.device, run.progress, scratch=scratch, work=work_of_fit(stages))
    data = fingerprint(rows)
    if checkpoint is not None:
        run = replace(run, checkpoint=Checkpoint(checkpoint, _identity(stages, run, data + content_digest(X))))
    fitted: list[Fitted] = []
    for i, stage in enumerate(stages):
        fitted.append(_fit_or_restore(stage, rows, run, f"stage-{i}"))
        if fitted[-1].sizes:
            run.progress.start("assign", rows.shape[0])
        rows = rows.map(fitted[-1])
    return FitResult(tuple(fitted), rows, data, spans_of(X), _columns(X))


def _columns(X: Any) -> dict[str, dict[str, str | None]]:
    """Role -> the columns of ids and vectors that were read, by file; {} for rows that come from no file."""
    members: Sequence[tuple[str, Any]] = X.members if isinstance(X, Joint) else [(ITEMS, X)]
    chosen = {role: chosen_columns(source) for role, source in members}
    return {role: {one.role.key: one.column for one in columns} for role, columns in chosen.items() if columns}


def _require_fittable(stages: Sequence[Stage], shape: tuple[int, int], run: FitContext) -> None:
    """The error that a later stage would end the fit with, before any row is read."""
    if shape[0] == 0:
        raise InputError("there are no rows to fit")
    level = 0
    for stage in stages:
        if not isinstance(stage, Checks):
            return
        level = stage.check(shape, level, run)
    if run.init is not None and len(run.init) > level:
        raise SpecError(f"init names rows for {len(run.init)} levels, and there are {level}")


def _identity(stages: Sequence[Stage], run: FitContext, data: str) -> str:
    """What must be unchanged for a fit to resume."""
    init = None if run.init is None else [None if rows is None else np.asarray(rows).tolist() for rows in run.init]
    given = sorted((run.starts or {}).items())
    starts = [[level, sha256(np.ascontiguousarray(array).tobytes()).hexdigest()] for level, array in given]
    return json.dumps([to_plain(stages), run.seed, init, data, *([starts] if starts else [])])


def _fit_or_restore(stage: Stage, rows: Rows, run: FitContext, key: str) -> Fitted:
    """The stage fitted, or restored if an interrupted fit had finished it."""
    saved = run.checkpoint.load(key) if run.checkpoint is not None else None
    if saved is not None and run.checkpoint is not None:
        with run.checkpoint.using(key):
            return stage.restore(saved[0], rows.shape[1])
    fitted = stage.fit(rows, run)
    if run.checkpoint is not None:
        run.checkpoint.save(key, fitted.arrays, {})
    return fitted
