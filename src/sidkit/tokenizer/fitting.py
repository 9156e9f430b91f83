"""Fitting the stages of a tokenizer, one after the other, with one seed or several."""

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
from ..stages.stage import Checks, FitContext, FitsSeeds, Fitted, Stage
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


def fit_stages(
    stages: Sequence[Stage], X: Any, runs: Sequence[FitContext], checkpoint: str | Path | None
) -> list[FitResult]:
    """Fit to embeddings once for every run; the runs differ in their seeds.

    What a fit of the same stages, data and seeds left in the checkpoint's folder is not fitted again.
    """
    first = runs[0]
    scratch = None if checkpoint is None else Path(checkpoint).absolute().parent
    if not is_rows(X) and not is_on_gpu(X):
        X = as_source(X)
    _require_fittable(stages, X.shape, first)
    rows = as_rows(X, first.device, first.progress, scratch=scratch, work=len(runs) * work_of_fit(stages))
    data = fingerprint(rows)
    if checkpoint is not None:
        runs, first = _with_checkpoints(stages, runs, data + content_digest(X), Path(checkpoint))
    fitted: list[list[Fitted]] = [[] for _ in runs]
    rows_of = [rows] * len(runs)
    for i, stage in enumerate(stages):
        made = _fit_or_restore(stage, rows_of, runs, first.checkpoint, f"stage-{i}")
        rows_of = _mapped(rows_of, made, first)
        for stages_of, one in zip(fitted, made, strict=True):
            stages_of.append(one)
    return [
        FitResult(tuple(each), after, data, spans_of(X), _columns(X))
        for each, after in zip(fitted, rows_of, strict=True)
    ]


def _mapped(rows_of: list[Rows], fitted: Sequence[Fitted], run: FitContext) -> list[Rows]:
    """The rows of every run after a stage; runs for which the stage learned the same share them."""
    after: list[Rows] = []
    for rows, stage in zip(rows_of, fitted, strict=True):
        if after and rows is rows_of[0] and not stage.sizes and _same(stage, fitted[0]):
            after.append(after[0])
            continue
        if stage.sizes:
            run.progress.start("assign", rows.shape[0])
        after.append(rows.map(stage))
    return after


def _same(a: Fitted, b: Fitted) -> bool:
    return a.arrays.keys() == b.arrays.keys() and all(
        np.array_equal(a.arrays[name], b.arrays[name]) for name in a.arrays
    )


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


def _with_checkpoints(
    stages: Sequence[Stage], runs: Sequence[FitContext], data: str, folder: Path
) -> tuple[list[FitContext], FitContext]:
    """The runs with a folder for each, and the first of them with the folder of all; of one run both are the same."""
    shared = Checkpoint(folder, _identity(stages, runs, data))
    if len(runs) == 1:
        only = replace(runs[0], checkpoint=shared)
        return [only], only
    own = [Checkpoint(folder / f"seed-{run.seed}", _identity(stages, [run], data)) for run in runs]
    return [replace(run, checkpoint=one) for run, one in zip(runs, own, strict=True)], replace(
        runs[0], checkpoint=shared
    )


def _identity(stages: Sequence[Stage], runs: Sequence[FitContext], data: str) -> str:
    """What must be unchanged for a fit to resume."""
    run, seeds = runs[0], [run.seed for run in runs]
    init = None if run.init is None else [None if rows is None else np.asarray(rows).tolist() for rows in run.init]
    given = sorted((run.starts or {}).items())
    starts = [[level, sha256(np.ascontiguousarray(array).tobytes()).hexdigest()] for level, array in given]
    seed = seeds if len(seeds) > 1 else run.seed
    return json.dumps([to_plain(stages), seed, init, data, *([starts] if starts else [])])


def _fit_or_restore(
    stage: Stage, rows_of: Sequence[Rows], runs: Sequence[FitContext], shared: Checkpoint | None, key: str
) -> list[Fitted]:
    """The stage fitted for every run: at once if it can and their rows are the same; restored if it had been fitted."""
    found = [_restored(stage, rows, run.checkpoint, key) for rows, run in zip(rows_of, runs, strict=True)]
    left = [i for i, one in enumerate(found) if one is None]
    if len(left) > 1 and isinstance(stage, FitsSeeds) and all(rows_of[i] is rows_of[0] for i in left):
        left = list(range(len(runs)))  # what was saved of an unfinished training is of all of them
        at_once = stage.fit_seeds(rows_of[0], [replace(run, checkpoint=shared) for run in runs])
        fresh: dict[int, Fitted] = dict(enumerate(at_once))
    else:
        fresh = {i: stage.fit(rows_of[i], runs[i]) for i in left}
    for i, fitted in fresh.items():
        checkpoint = runs[i].checkpoint
        if checkpoint is not None:
            checkpoint.save(key, fitted.arrays, {})
    return [fresh.get(i, one) for i, one in enumerate(found)]  # type: ignore[misc]


def _restored(stage: Stage, rows: Rows, checkpoint: Checkpoint | None, key: str) -> Fitted | None:
    saved = checkpoint.load(key) if checkpoint is not None else None
    if saved is None or checkpoint is None:
        return None
    with checkpoint.using(key):
        return stage.restore(saved[0], rows.shape[1])
