"""Fit several tokenizers with several seeds, or reuse their runs, and measure them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.inputs import as_rows
from ..data.joint import item_rows, spans_of
from ..errors import StoreError
from ..progress import Progress, Silent
from ..rows.work import work_of_fit
from ..sids.quality import quality
from ..tokenizer.fingerprint import fingerprint
from ..tokenizer.spec import to_plain
from ..tokenizer.tokenizer import Tokenizer, load
from .comparison import Comparison

__all__ = ["FORMS", "compare"]

FORMS = ("table", "json", "markdown", "latex")


def compare(
    X: Any,
    tokenizers: Mapping[str, Tokenizer | Path],
    seeds: Sequence[int],
    folder: Path,
    progress: Progress | None = None,
    device: str = "auto",
) -> Comparison:
    """Fit every tokenizer with every seed, keep the models in a folder, and measure them.

    A run whose spec, seed and data fingerprint match one in the folder is reused. A path is a fitted tokenizer; it is
    measured as it is. Of items and queries that are fitted together (`Joint`), items alone are measured.
    """
    report = progress or Silent()
    stages = [stage for spec in tokenizers.values() if isinstance(spec, Tokenizer) for stage in spec.stages]
    rows = as_rows(X, device=device, progress=report, work=len(seeds) * work_of_fit(stages))
    data, reused = fingerprint(rows), 0
    spans = spans_of(X)
    roles = {role: last - first for role, (first, last) in spans.items()}
    figures: dict[str, list[Mapping[str, Any]]] = {label: [] for label in tokenizers}
    folders: dict[str, list[Path]] = {label: [] for label in tokenizers}
    for label, tokenizer in tokenizers.items():
        if isinstance(tokenizer, Path):
            fitted = load(tokenizer)
            codes = fitted.encode(rows, device=device, progress=report)
            figures[label].append(quality(codes[item_rows(spans)], fitted.sizes))
            folders[label].append(tokenizer)
            continue
        runs = {seed: folder / f"{label}-{_spec_digest(tokenizer)}-{data[:8]}-seed{seed}" for seed in seeds}
        facts = {seed: _saved_facts(run, tokenizer, data, roles, seed) for seed, run in runs.items()}
        missing = [seed for seed in seeds if facts[seed] is None]
        reused += len(seeds) - len(missing)
        for some in _at_once(tokenizer, missing):
            report.start(f"{label}, seed {', '.join(map(str, some))}", 0)
            for fitted in tokenizer.fit_seeds(rows, some, device=device, progress=report):
                replace(fitted, roles=spans).save(runs[fitted.seed])
                facts[fitted.seed] = dict(load(runs[fitted.seed]).facts)
        figures[label] = [one["quality"] for one in facts.values() if one is not None]
        folders[label] = list(runs.values())
    return Comparison(figures, seeds, reused, folders, roles, data)


def _at_once(tokenizer: Tokenizer, seeds: Sequence[int]) -> list[list[int]]:
    """The seeds that are fitted together: all of a learned tokenizer; else one by one, each saved when it is done."""
    if tokenizer.fits_seeds_at_once:
        return [list(seeds)] if seeds else []
    return [[seed] for seed in seeds]


def _spec_digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(json.dumps(to_plain(tokenizer.stages)).encode()).hexdigest()[:8]


def _saved_facts(
    run: Path, tokenizer: Tokenizer, data: str, roles: Mapping[str, int], seed: int
) -> dict[str, Any] | None:
    """The facts of a run on disk; None unless it is complete and of this spec, data, roles and seed."""
    try:
        fitted = load(run)
    except StoreError:
        return None
    facts = dict(fitted.facts)
    same_data = facts.get("data_fingerprint") == data and facts.get("roles", {}) == roles
    same = fitted.spec == tokenizer and fitted.seed == seed and same_data
    return facts if same and "quality" in facts else None
